"""Knobs of profiles that no named one turns: what they add, against enumerations in plain Python, and the searches
against each other with them on."""

from __future__ import annotations

import itertools
import random
import re
from dataclasses import replace
from typing import Any

import pytest

from shmem.check import dpor
from shmem.check.litmus.language import parse
from shmem.check.litmus.model import Impossible
from shmem.check.litmus.run import Run
from shmem.check.litmus.syntax import STATUS_VALUES, Test
from shmem.check.litmus.verdict import judge
from shmem.delivery.profiles import Profile, varied
from tests.launcher.cells import FULL

from .programs import program
from .test_reductions import compare
from .test_sim import agreeing

SEEDS = 60 if FULL else 4

# Each knob with a profile that keeps an order, and one that keeps none.
KNOBS: dict[str, tuple[Profile, ...]] = {
    "repeat": (varied("rc_strict", repeat=True), varied("openshmem", unit=8, repeat=True)),
    "lazy": (varied("rc_strict", reader="lazy"), varied("openshmem", unit=8, reader="lazy")),
    "lost_doorbell": (varied("rc_strict", lost_doorbell=True), varied("udma", lost_doorbell=True)),
    "lost_ack": (varied("rc_strict", lost_ack=True), varied("udma", lost_ack=True, on_error="go_on")),
    "suspend": (varied("rc_strict", on_error="suspend"), varied("rc_relaxed", on_error="suspend", lost_doorbell=True)),
    "go_on": (varied("rc_strict", on_error="go_on"), varied("udma", on_error="go_on")),
    "lazy and repeat": (varied("rc_relaxed", reader="lazy", repeat=True),),
}
COMPARED = {name: profiles if FULL else profiles[:1] for name, profiles in KNOBS.items()}
PROFILES = [profile for profiles in COMPARED.values() for profile in profiles]
ON_CONTEXTS = [profile for name in ("repeat", "lazy", "lazy and repeat") for profile in COMPARED[name]]


def made(text: str, names: str = "x = 0, y = 0, s = 0") -> Test:
    [test] = parse(f'test K "knob"\ninit {names}\nlocal b = 0, c = 0\n{text}\nverdict udma clean\n')
    return test


def seen(text: str, profile: Profile, *registers: str, final: str = "") -> set[tuple[Any, ...]]:
    """What registers of PE 1 (`0r`: of PE 0) are at the ends, behind them a final word of PE 1; -1: PE 1 waits."""
    test = made(text)
    compare(test, replace(profile, unit=max(profile.unit, 8)))
    found = dpor.Search(lambda: Run(test, profile)).run()
    assert found.complete
    first = Run(test, profile).layout.symmetric[final] if final else 0
    ends = set()
    for end in found.outcomes:
        values = [dict(end.registers[0 if name[0] == "0" else 1]).get(name.lstrip("0"), 0) for name in registers]
        if final:
            values.append(int.from_bytes(end.heaps[1][first : first + 8], "little"))
        ends.add((*values, -1) if 1 in end.blocked else tuple(values))
    return ends


def mean(text: str, rng: random.Random, profile: Profile) -> str:
    """A random program in which some work requests fail or wait for a doorbell, if the profile is about those."""
    if not (profile.lost_doorbell or profile.on_error != "error"):
        return text

    def flagged(match: re.Match[str]) -> str:
        flag = rng.choice(["badkey", "badkey", "nodb", "", "inline"])
        return f"{match[0]} {{{flag}}}" if flag else match[0]

    text = re.sub(r"write \w@\d = \d(?! \{)", flagged, text)
    text = re.sub(r"put(_nbi)? (\w@\d) (?:= \d|<- \w+)", r"write \2 = 3", text)
    return re.sub(r"(?:tell|hear) (\d)", rf"{rng.choice(['doorbell', 'poll_cq'])} \1", text)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_searches_agree_on_random_programs(profile: Profile) -> None:
    used = []
    for seed in range(SEEDS):
        text = mean(program(random.Random(f"{profile.name} {seed}")), random.Random(seed), profile)
        [test] = parse(text)
        try:
            used.append(compare(test, profile))
        except Impossible:
            continue
        except AssertionError as error:
            raise AssertionError(f"seed {seed} under {profile.name}:\n{text}") from error
    assert used.count("") <= len(used) // 2


@pytest.mark.parametrize("profile", ON_CONTEXTS, ids=lambda profile: profile.name)
def test_programs_have_the_ends_of_their_litmus_tests(profile: Profile) -> None:
    seeds = [f"{profile.name} {seed}" for seed in range(SEEDS // 2)]
    assert agreeing(profile, seeds) >= SEEDS // 6


# ---- repeat ----


def deliveries(ordered: bool) -> set[tuple[int, ...]]:
    """Orders of writes 1 and 2, each delivered twice, and looks (0) of a reader: the first of each in order or not."""
    found = set()
    for order in itertools.permutations(["1", "1 again", "2", "2 again", "r0", "r1"]):
        at = order.index
        kept = at("1") < at("1 again") and at("2") < at("2 again") and at("r0") < at("r1")
        if kept and (at("1") < at("2") or not ordered):
            now, looks = 0, []
            for step in order:
                if step[0] == "r":
                    looks.append(now)
                else:
                    now = int(step[0])
            found.add((*looks, now))
    return found


@pytest.mark.parametrize(("name", "ordered"), [("rc_strict", True), ("srd", False)])
def test_a_write_comes_twice_and_late(name: str, ordered: bool) -> None:
    text = "P0: write x@1 = 1; write x@1 = 2\nP1: r0 = x; r1 = x"
    assert seen(text, varied(name, repeat=True), "r0", "r1", final="x") == deliveries(ordered)


@pytest.mark.parametrize(
    ("between", "stale"),
    [("poll_cq 1", True), ("fence", True), ("quiet", False), ("pe_quiet 1", False), ("barrier_all", False)],
)
def test_only_a_quiet_is_past_the_second_delivery(between: str, stale: bool) -> None:
    first, second = ("write", "write") if between == "poll_cq 1" else ("put", "put")
    meets = "barrier_all; " if between == "barrier_all" else ""
    text = f"P0: {first} x@1 = 1; {between}; {second} x@1 = 2\nP1: {meets}r0 = x"
    ends = seen(text, varied("rc_strict", repeat=True), final="x")
    assert ends == ({(1,), (2,)} if stale else {(2,)})


def test_words_and_atomics_come_once() -> None:
    profile = varied("rc_strict", repeat=True)
    assert seen("P0: faa x@1 += 1; faa x@1 += 1\nP1: r0 = y", profile, final="x") == {(2,)}
    assert seen("P0: put_signal y@1 = 1, s@1 add 1\nP1: signal_wait s == 1", profile, final="s") == {(1,)}


# ---- lazy readers ----


def sights(first: str, looks: str) -> set[tuple[int, ...]]:
    """What looks of a reader give, whose view learns of each placement by itself. Placements are in order, `first` and
    then y; of one word they are shown in order as well."""
    names = ["place " + first, "place y", "show " + first, "show y", *(f"{i} {name}" for i, name in enumerate(looks))]
    found = set()
    for order in itertools.permutations(names):
        at = order.index
        placed = at("place " + first) < at("place y") and all(at(f"place {n}") < at(f"show {n}") for n in {first, "y"})
        same = first != "y" or at("show " + first) < at("show y")
        if placed and same and all(at(names[i]) < at(names[i + 1]) for i in range(4, len(names) - 1)):
            view, given = {"x": 0, "y": 0}, []
            for step in order:
                if step.startswith("show"):
                    view[step[-1]] = 1
                elif step[0].isdigit():
                    given.append(view[step[-1]])
            found.add(tuple(given))
    return found


@pytest.mark.parametrize("looks", ["yx", "xy", "yxx", "xx"])
def test_a_lazy_reader_sees_units_in_any_order(looks: str) -> None:
    program = "; ".join(f"r{i} = {name}" for i, name in enumerate(looks))
    text = f"P0: write x@1 = 1; write y@1 = 1\nP1: {program}"
    registers = [f"r{i}" for i in range(len(looks))]
    assert seen(text, varied("rc_strict", reader="lazy"), *registers) == sights("x", looks)


def test_a_lazy_reader_goes_never_back() -> None:
    text = "P0: write x@1 = 1; write x@1 = 2\nP1: r0 = x; r1 = x"
    wanted = {(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)}
    assert seen(text, varied("rc_strict", reader="lazy"), "r0", "r1") == wanted


ACQUIRES = {
    "wait y == 1": True, "signal_wait y == 1": True, "poll y == 1": False, "poll_line y == 1": False,
    "poll y == 1; quiet": True, "poll y == 1; pe_quiet 0": True, "poll y == 1; fence": False,
    "poll y == 1; get g <- s@0": False, "poll y == 1; g = atomic_fetch s@0": True,
    "poll y == 1; atomic_add s@0 += 1": False, "poll y == 1; lock s; unlock s": True,
}  # fmt: skip


@pytest.mark.parametrize("how", ACQUIRES)
@pytest.mark.parametrize("name", ["rc_strict", "openshmem"])
def test_what_acquires(how: str, name: str) -> None:
    text = f"P0: put x@1 = 1; fence; put y@1 = 1\nP1: {how}; r = x"
    assert seen(text, varied(name, unit=8), "r") == {(1,)}
    assert seen(text, varied(name, unit=8, reader="lazy"), "r") == ({(1,)} if ACQUIRES[how] else {(0,), (1,)})


@pytest.mark.parametrize("how", ["barrier_all", "sync_all"])
def test_meetings_acquire(how: str) -> None:
    text = f"P0: put x@1 = 1; quiet; {how}\nP1: r0 = x; {how}; r = x"
    assert seen(text, varied("openshmem", unit=8, reader="lazy"), "r0", "r") == {(0, 1), (1, 1)}


@pytest.mark.parametrize("name", ["rc_strict", "openshmem"])
def test_a_lazy_reader_sees_its_own_stores(name: str) -> None:
    """Also where something older comes to light later."""
    text = "P0: put x@1 = 1; quiet; tell 1\nP1: hear 0; x = 2; r0 = x; r1 = x; quiet; r2 = x"
    assert seen(text, varied(name, unit=8, reader="lazy"), "r0", "r1", "r2", final="x") == {(2, 2, 2, 2)}


def test_others_read_what_is_placed() -> None:
    """Gets, atomics and late sources read memory, not what its PE sees of it."""
    first = "P0: put x@1 = 1; quiet; get g <- x@1; tell 1; hear 1; quiet; f = y"
    text = first + "\nP1: hear 0; put_nbi y@0 <- x; quiet; tell 0; r = x"
    assert seen(text, varied("rc_strict", reader="lazy"), "0g", "0f", "r") == {(1, 1, 1)}


# ---- lost doorbells ----


@pytest.mark.parametrize("name", ["rc_strict", "udma"])
def test_a_lost_doorbell_is_made_good_by_the_next(name: str) -> None:
    profile = varied(name, lost_doorbell=True)
    last = "P0: write x@1 = 1; write y@1 = 1\nP1: r = s"
    assert seen(last, profile, final="x") == {(1,)}
    assert seen(last, profile, final="y") == {(0,), (1,)}
    assert seen("P0: write x@1 = 1\nP1: r = s", profile, final="x") == {(0,), (1,)}
    assert seen("P0: write x@1 = 1; doorbell 1\nP1: r = s", profile, final="x") == {(1,)}
    assert seen("P0: write x@1 = 1 {nodb}; doorbell 1; doorbell 1\nP1: r = s", profile, final="x") == {(1,)}


def test_one_doorbell_of_each_queue_pair_is_lost() -> None:
    """Of two queue pairs each may lose its own."""
    text = "P0: write x@1 = 1; write y@1 = 1 {qp=2}; quiet\nP1: r = s"
    profile = varied("rc_strict", lost_doorbell=True)
    test = made(text)
    layout = Run(test, profile).layout.symmetric
    ends = dpor.Search(lambda: Run(test, profile)).run().outcomes
    assert {(end.heaps[1][layout["x"]], end.heaps[1][layout["y"]]) for end in ends} == set(
        itertools.product((0, 1), (0, 1))
    )


# ---- after a failure ----


@pytest.mark.parametrize("name", ["rc_strict", "udma"])
@pytest.mark.parametrize("cause", ["write y@1 = 1 {badkey}", "send 1@1"])
def test_what_a_failure_does_to_the_rest(name: str, cause: str) -> None:
    text = f"P0: {cause}; write x@1 = 1; poll_cq 1 -> c; poll_cq 1 -> d\nP1: r = y"
    status = STATUS_VALUES["rem_access" if "badkey" in cause else "rnr_retry"]
    test = made(text, "x = 0, y = 0, s = 0 with recvs=0")
    found = {}
    for on_error in ("error", "suspend", "go_on"):
        profile = varied(name, on_error=on_error)
        compare(test, profile)
        at = Run(test, profile).layout.symmetric["x"]
        found[on_error] = {
            (dict(end.registers[0])["c"], dict(end.registers[0]).get("d"), end.heaps[1][at], end.blocked)
            for end in dpor.Search(lambda profile=profile: Run(test, profile)).run().outcomes  # type: ignore[misc]
        }
    assert found["error"] == {(status, STATUS_VALUES["flush"], 0, ())}
    assert found["suspend"] == {(status, None, 0, (0,))}
    assert found["go_on"] == {(status, STATUS_VALUES["ok"], 1, ())}


# A bug of a program that posts work requests, and its repair: the outcome is that of the bug.
PLANTED: dict[str, tuple[Profile, str, str, str]] = {
    "a doorbell rung once": (
        varied("udma", lost_doorbell=True),
        "P0: write x@1 = 1 {nodb}; write y@1 = 1 {nodb}; doorbell 1; poll_cq 1 n=2",
        "P0: write x@1 = 1 {nodb}; write y@1 = 1 {nodb}; doorbell 1; doorbell 1; poll_cq 1 n=2",
        "0:blocked",
    ),
    "adding once more after a failure": (
        varied("rc_strict", lost_ack=True),
        "P0: faa x@1 += 1; poll_cq 1 -> c; faa x@1 += 1 {qp=2}",
        "P0: cas x@1 0 1; poll_cq 1 -> c; cas x@1 0 1 {qp=2}",
        "x@1 == 2",
    ),
    "a flag behind data that failed": (
        varied("rc_strict", on_error="go_on"),
        "P0: write x@1 = 1 {badkey}; write y@1 = 1\nP1: wait y == 1; r = x",
        "P0: write_notify x@1 = 1, y@1 set 1 {badkey}\nP1: wait y == 1; r = x",
        "1:r == 0 and not 1:blocked",
    ),
    "waiting for what stands behind a failure": (
        varied("rc_strict", on_error="suspend"),
        "P0: write x@1 = 1 {badkey}; write y@1 = 1; poll_cq 1 n=2",
        "P0: write x@1 = 1 {badkey}; write y@1 = 1 {qp=2}; poll_cq 1 n=2",
        "0:blocked",
    ),
}


@pytest.mark.parametrize("what", PLANTED)
def test_planted_in_queue_pairs(what: str) -> None:
    profile, bug, repair, outcome = PLANTED[what]
    for text, wanted in ((bug, "allowed"), (repair, "forbidden")):
        [test] = parse(f'test K "{what}"\ninit x = 0, y = 0\n{text}\noutcome {outcome}\nverdict udma {wanted}\n')
        compare(test, profile)
        assert judge(test, profile).found == wanted


# ---- lost acknowledgements ----


def told(text: str, profile: Profile) -> set[tuple[Any, ...]]:
    """What two completions of PE 0 say at the ends, and x and y of PE 1."""
    test = made(text)
    compare(test, profile)
    at = Run(test, profile).layout.symmetric
    names = {value: name for name, value in STATUS_VALUES.items()}
    return {
        (
            *(names.get(dict(end.registers[0]).get(name), "") for name in "cd"),
            *(end.heaps[1][at[name]] for name in "xy"),
        )
        for end in dpor.Search(lambda: Run(test, profile)).run().outcomes
    }


@pytest.mark.parametrize("name", ["rc_strict", "udma"])
def test_a_request_may_fail_and_yet_be_executed(name: str) -> None:
    text = "P0: write x@1 = 1; write y@1 = 1; poll_cq 1 -> c; poll_cq 1 -> d\nP1: r = s"
    done = {("ok", "ok", 1, 1), ("ok", "retry", 1, 1)}
    flushed = {("retry", "flush", 1, 0), ("retry", "flush", 1, 1)}
    assert told(text, varied(name, lost_ack=True)) == done | flushed
    went_on = {("retry", "ok", 1, 1), ("retry", "retry", 1, 1)}
    assert told(text, varied(name, lost_ack=True, on_error="go_on")) == done | went_on
    once = told("P0: faa x@1 += 1; poll_cq 1 -> c\nP1: r = s", varied(name, lost_ack=True))
    assert once == {("ok", "", 1, 0), ("retry", "", 1, 0)}


def test_the_answer_of_a_failed_read_may_be_missing() -> None:
    text = "P0: read b <- x@1; poll_cq 1 -> c; r = b\nP1: s = 1"
    test = made(text, "x = 5, y = 0, s = 0")
    profile = varied("rc_strict", lost_ack=True)
    compare(test, profile)
    ends = dpor.Search(lambda: Run(test, profile)).run().outcomes
    found = {(dict(end.registers[0])["c"] == STATUS_VALUES["ok"], dict(end.registers[0])["r"]) for end in ends}
    assert found == {(True, 5), (False, 5), (False, 0)}


@pytest.mark.parametrize(("lost_ack", "wanted"), [(False, "forbidden"), (True, "allowed")])
def test_a_read_that_is_redone_has_its_units_in_any_order(lost_ack: bool, wanted: str) -> None:
    text = "P0: read b[0:2] <- v[0:2]@1; poll_cq 1; r = b[0]; q = b[1]\nP1: v[1] = 1; v[0] = 1"
    names = "init v[2] = 0 with units=ascending\nlocal b[2] = 0"
    [test] = parse(f'test K "redone"\n{names}\n{text}\noutcome 0:r == 1 and 0:q == 0\nverdict udma {wanted}\n')
    profile = varied("rc_strict", lost_ack=lost_ack)
    compare(test, profile)
    assert judge(test, profile).found == wanted
