"""What communication costs, as data: the model that the clock of `sim` goes by.

It is LogGP (A. Alexandrov, M. Ionescu, K. Schauser, C. Scheiman: LogGP: Incorporating Long Messages into the LogP
Model, SPAA 1995), with its own numbers for each class of link. Of a message of n bytes that nothing is in the way of:

    o        overhead_us: the time of the sender's program
    (n-1) G  1 / bandwidth_GBps: the bytes follow one another
    L        latency_us: of the first byte, and of the acknowledgement or request on its way back
    g        gap_us: between the last byte of a message and the first of the next at the same port
    o        receive_us of the model: the time of a program that has waited for something
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..errors import ArgumentError

CLASSES = ("self", "node", "network")  # of links, from near to far
Class = str


@dataclass(frozen=True)
class Link:
    """The links of a class. Raises ArgumentError for values that mean nothing."""

    latency_us: float = 0.0
    overhead_us: float = 0.0
    gap_us: float = 0.0
    bandwidth_GBps: float = math.inf  # noqa: N815 - of one rail; 1 GB/s are 1000 bytes a microsecond
    rails: int = 1  # ports of a PE; a context uses one, the stripes of a put the next ones as well

    def __post_init__(self) -> None:
        for name in ("latency_us", "overhead_us", "gap_us"):
            _check_time(f"Link.{name}", getattr(self, name))
        if not _number(self.bandwidth_GBps) or not self.bandwidth_GBps > 0:
            raise ArgumentError(f"Link.bandwidth_GBps={self.bandwidth_GBps!r}: must be above 0")
        if isinstance(self.rails, bool) or not isinstance(self.rails, int) or self.rails < 1:
            raise ArgumentError(f"Link.rails={self.rails!r}: must be a number from 1 up")

    def bytes_us(self, n: int) -> float:
        """(n-1) G: from the first byte of n to the last."""
        return max(n - 1, 0) * 1e-3 / self.bandwidth_GBps


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _check_time(name: str, value: object) -> None:
    if not _number(value) or not 0 <= value < math.inf:  # type: ignore[operator]
        raise ArgumentError(f"{name}={value!r}: must be a time, 0 or above")


@dataclass(frozen=True)
class Model:
    """A machine. Raises ArgumentError for values that mean nothing.

    links: by class; a class that is left out has the numbers of the next farther one, "network" is needed.
    pes_per_node: PEs 0 .. k-1 are on one node, the next k on the next; 0: all are on one.
    """

    name: str
    links: Mapping[Class, Link]
    pes_per_node: int = 0
    receive_us: float = 0.0  # to go on after a wait for a value, an answer or a completion that was not there yet
    access_us: float = 0.0  # a load or store of symmetric memory by a program, a look at it that finds what it wants
    _by_class: Mapping[Class, Link] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if unknown := set(self.links) - set(CLASSES):
            raise ArgumentError(f"model {self.name}: no links {', '.join(sorted(unknown))}: use {', '.join(CLASSES)}")
        if "network" not in self.links:
            raise ArgumentError(f"model {self.name}: links of the class network are missing")
        if isinstance(self.pes_per_node, bool) or not isinstance(self.pes_per_node, int) or self.pes_per_node < 0:
            raise ArgumentError(f"model {self.name}: pes_per_node={self.pes_per_node!r}: a number, or 0 for all")
        for name in ("receive_us", "access_us"):
            _check_time(f"model {self.name}: {name}", getattr(self, name))
        object.__setattr__(self, "_by_class", self._completed())

    def _completed(self) -> dict[Class, Link]:
        link, found = self.links["network"], {}
        for name in reversed(CLASSES):
            link = found[name] = self.links.get(name, link)
        return found

    def between(self, one: int, other: int) -> Class:
        """The class of the link between two PEs."""
        if one == other:
            return "self"
        k = self.pes_per_node
        return "node" if not k or one // k == other // k else "network"

    def link(self, name: Class) -> Link:
        """The links of a class."""
        return self._by_class[name]

    def barrier_us(self, pes: tuple[int, ...]) -> float:
        """From the arrival of the last of these PEs at a barrier until all leave it: ceil(log2 n) rounds, in each of
        which everybody sends an empty message and takes one, over the farthest of their links."""
        rounds = (len(pes) - 1).bit_length()
        far = max((self.between(pes[0], pe) for pe in pes), key=CLASSES.index)
        link = self.link(far)
        return rounds * (link.overhead_us + link.latency_us + self.receive_us)


# Round numbers of the usual size, for a start; no machine was measured for them.
NAMED: Mapping[str, Model] = {
    each.name: each
    for each in (
        Model("node", {"network": Link(0.3, 0.05, 0.02, 10.0)}, receive_us=0.05, access_us=0.01),
        Model(
            "cluster",
            {
                "self": Link(0.2, 0.1, 0.0, 500.0), "node": Link(0.8, 0.1, 0.02, 150.0),
                "network": Link(2.0, 0.2, 0.1, 25.0),
            },
            pes_per_node=8, receive_us=0.1, access_us=0.01,
        ),
    )
}  # fmt: skip


def model(which: str | Model) -> Model:
    """A model by its name, from a TOML file (what ends in .toml), or the one given. Raises ArgumentError."""
    if isinstance(which, Model):
        return which
    if not isinstance(which, str):
        raise ArgumentError(f"clock={which!r}: a Model, the name of one, or a TOML file")
    if which.endswith(".toml"):
        return _read(Path(which))
    try:
        return NAMED[which]
    except KeyError:
        raise ArgumentError(f"there is no clock {which!r}: there are {', '.join(NAMED)}, or a file in .toml") from None


def _read(path: Path) -> Model:
    """A file with the fields of a Model, and a table [links.CLASS] with those of each Link."""
    try:
        import tomllib  # type: ignore[import-not-found, unused-ignore]
    except ModuleNotFoundError:
        raise ArgumentError(f"{path}: TOML files need Python 3.11 or newer") from None
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ArgumentError(f"{path}: {error}") from None
    links = values.pop("links", {})
    if not isinstance(links, dict) or not all(isinstance(each, dict) for each in links.values()):
        raise ArgumentError(f"{path}: links are tables [links.CLASS]")
    try:
        made = {name: Link(**_known(Link, each)) for name, each in links.items()}
        return Model(**{"name": path.stem, **_known(Model, values)}, links=made)
    except ArgumentError as error:
        raise ArgumentError(f"{path}: {error}") from None


def _known(kind: type[Any], values: dict[str, Any]) -> dict[str, Any]:
    names = [each.name for each in fields(kind) if each.init]
    if unknown := set(values) - set(names):
        raise ArgumentError(f"a {kind.__name__} has no {', '.join(sorted(unknown))}: it has {', '.join(names)}")
    return values
