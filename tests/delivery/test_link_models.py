"""Models of what communication costs: their checks, their files, what they say of links and barriers."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest

from shmem.delivery.model import CLASSES, NAMED, Link, Model, model
from shmem.errors import ArgumentError

FILE = """
pes_per_node = 4
receive_us = 0.25
[links.node]
latency_us = 0.5
bandwidth_GBps = 100
[links.network]
latency_us = 2
overhead_us = 0.125
gap_us = 0.1
bandwidth_GBps = 12.5
rails = 2
"""
needs_toml = pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with Python 3.11")


@needs_toml
def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "machine.toml"
    path.write_text(FILE)
    links = {"node": Link(0.5, bandwidth_GBps=100), "network": Link(2, 0.125, 0.1, 12.5, 2)}
    assert model(str(path)) == Model("machine", links, 4, 0.25)


@needs_toml
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = ", "machine.toml: "),
        ("color = 1\n[links.network]", "a Model has no color: it has name, links, pes_per_node, receive_us"),
        ("[links.network]\nlatency = 1", "a Link has no latency: it has latency_us, "),
        ("[links.moon]\n[links.network]", "no links moon: use self, node, network"),
        ("links = 3", "tables"),
        ("[links]\nnetwork = 3", "tables"),
        ("[links.node]", "network are missing"),
        ("receive_us = '1'\n[links.network]", "receive_us='1'"),
    ],
)
def test_a_file_of_nonsense_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "machine.toml"
    path.write_text(text)
    with pytest.raises(ArgumentError, match=says):
        model(str(path))


@pytest.mark.parametrize(
    ("which", "says"), [("sun", "there are node, cluster, or a file"), ("no.toml", "no.toml"), (3, "clock=3")]
)
def test_what_is_no_model_is_refused(which: Any, says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        model(which)


@pytest.mark.parametrize(
    "values",
    [{"latency_us": -1}, {"overhead_us": math.nan}, {"gap_us": math.inf}, {"bandwidth_GBps": 0}, {"rails": 0},
     {"rails": True}, {"latency_us": "1"}],
)  # fmt: skip
def test_a_link_of_nonsense_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(values))):
        Link(**values)


@pytest.mark.parametrize("values", [{"pes_per_node": -1}, {"pes_per_node": 1.5}, {"access_us": -1}])
def test_a_model_of_nonsense_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(values))):
        Model("m", {"network": Link()}, **values)


def test_a_class_that_is_left_out_is_as_the_next_farther_one() -> None:
    near, far = Link(1), Link(9)
    for given, expected in [
        ({"network": far}, (far, far, far)),
        ({"node": near, "network": far}, (near, near, far)),
        ({"self": near, "network": far}, (near, far, far)),
    ]:
        made = Model("m", given)
        assert tuple(made.link(name) for name in CLASSES) == expected


@pytest.mark.parametrize("per_node", [0, 1, 3])
def test_which_link_is_between_two_pes(per_node: int) -> None:
    made = Model("m", {"network": Link()}, per_node)
    nodes = [0] * 7 if per_node == 0 else [pe // per_node for pe in range(7)]
    for one in range(7):
        for other in range(7):
            expected = "self" if one == other else "node" if nodes[one] == nodes[other] else "network"
            assert made.between(one, other) == expected


def test_a_barrier_goes_over_the_farthest_link() -> None:
    made = Model("m", {"node": Link(1.0, 0.25), "network": Link(10.0, 0.5)}, pes_per_node=4, receive_us=0.125)
    assert made.barrier_us((0,)) == 0
    assert made.barrier_us((0, 1, 2)) == 2 * (0.25 + 1 + 0.125)
    assert made.barrier_us((1, 4)) == 0.5 + 10 + 0.125
    assert made.barrier_us(tuple(range(9))) == 4 * (0.5 + 10 + 0.125)


def test_the_named_ones_have_what_they_are_called() -> None:
    assert {name: each.name for name, each in NAMED.items()} == {name: name for name in NAMED}
    assert model("cluster") is NAMED["cluster"]
    assert model(NAMED["node"]) is NAMED["node"]
