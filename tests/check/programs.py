"""Random litmus programs: short enough for a search without any reduction, and mean."""

from __future__ import annotations

import random

NAMES = ("x", "y", "z")


def program(rng: random.Random) -> str:
    """A test without an outcome, of two or three PEs with one to three statements each."""
    pes = rng.choice([2, 2, 3])
    lines = [
        f"P{pe}: " + "; ".join(_statement(rng, pe, pes, i) for i in range(rng.choice([1, 2, 3, 3])))
        for pe in range(pes)
    ]
    if rng.random() < 0.15:
        lines = [f"{line}; barrier_all; rz = x" for line in lines]
    elif rng.random() < 0.1:
        lines = [line.replace(": ", ": lock y; ", 1) + "; unlock y" for line in lines]
    return "\n".join(['test R "random"', "init x = 0, y = 0, z = 0", "local b = 0", *lines, "verdict udma clean", ""])


def _statement(rng: random.Random, me: int, pes: int, i: int) -> str:
    pe = rng.choice([other for other in range(pes) if other != me])
    there, own, other, value = f"{rng.choice(NAMES)}@{pe}", rng.choice(NAMES), rng.choice(NAMES), rng.randint(1, 2)
    return rng.choice(
        [
            f"put {there} = {value}", f"put_nbi {there} <- b", f"b = {value}", f"{own} = {value}", f"r{i} = {own}",
            f"r{i} = {own}", f"get r{i} <- {there}", f"get_nbi b <- {there}", f"atomic_set {there} = {value}",
            f"put_signal {there} = {value}, {other}@{pe} add 1", f"r{i} = fetch_add {there} 1",
            f"r{i} = compare_swap {there} 0 {value}", "fence", "quiet", f"wait {own} >= 1", f"wait {own} == {value}",
            f"write {there} = {value}", f"write {there} <- b {{unsignaled}}", f"faa {there} += 1",
            f"read b <- {there}", f"poll_cq {pe}", f"write_imm {there} = {value}", "poll_recv", f"r{i} = b",
            f"write {there} = {value} {{qp=2}}", f"write {there} = {value} {{fence}}", f"tell {pe}", f"hear {pe}",
        ]
    )  # fmt: skip


def shmem_program(rng: random.Random) -> str:
    """As `program`, of what the calls of `shmem` can do, and without results that are read before they are complete."""
    pes = rng.choice([2, 2, 3])
    lines = [
        f"P{pe}: " + "; ".join(_call(rng, pe, pes, i) for i in range(rng.choice([1, 2, 3, 3, 4]))) for pe in range(pes)
    ]
    if rng.random() < 0.15:
        lines = [f"{line}; barrier_all; rz = x" for line in lines]
    head = 'test R "random"', "init x = 0, y = 0, z = 0", "local b = 0, c = 0"
    return "\n".join([*head, *lines, "verdict udma clean", ""])


def _call(rng: random.Random, me: int, pes: int, i: int) -> str:
    pe = rng.choice([other for other in range(pes) if other != me])
    there, own, other, value = f"{rng.choice(NAMES)}@{pe}", rng.choice(NAMES), rng.choice(NAMES), rng.randint(1, 2)
    word = there[0]
    signal = rng.choice([name for name in NAMES if name != word])
    return rng.choice(
        [
            f"put {there} = {value}", f"put {there} = {value}", f"put_nbi {there} <- b", f"b = {value}",
            f"{own} = {value}", f"r{i} = {own}", f"r{i} = {own}", f"get r{i} <- {there}",
            f"atomic_set {there} = {value}", f"put_signal {there} = {value}, {signal}@{pe} add 1",
            f"r{i} = fetch_add {there} 1", f"r{i} = compare_swap {there} 0 {value}", "fence", "quiet",
            f"wait {own} >= 1", f"wait {other} == {value}", f"put {there} <- {own}", f"put_nbi {there} <- {own}",
        ]
    )  # fmt: skip


def request_program(rng: random.Random, order: bool = False) -> str:
    """As `program`, mostly of work requests, and without results that are read before they are complete. order: with
    calls of the default context, too."""
    pes = rng.choice([2, 2, 2, 3])
    lines = [
        f"P{pe}: " + "; ".join(_request(rng, pe, pes, i, order) for i in range(rng.choice([1, 2, 3, 3])))
        for pe in range(pes)
    ]
    head = f"init x = 0, y = 0, z = 0{rng.choice(['', '', ' with recvs=0', ' with recvs=1'])}"
    return "\n".join(['test R "random"', head, "local b = 0, c = 0", *lines, "verdict udma clean", ""])


def _request(rng: random.Random, me: int, pes: int, i: int, order: bool) -> str:
    pe = (me + 1) % pes  # one sender for each, so that receives of a PE are those of a queue pair
    there, own, value = f"{rng.choice(NAMES)}@{pe}", rng.choice(NAMES), rng.randint(1, 2)
    word = there[0]
    signal = rng.choice([name for name in NAMES if name != word])
    calls = ["fence", "fence", "quiet", f"pe_quiet {pe}", f"put {there} = {value}", f"put_nbi {there} <- b"]
    return rng.choice(
        [
            *(calls if order else []),
            f"write {there} = {value}", f"write {there} = {value}", f"write {there} <- b", f"b = {value}",
            f"{own} = {value}", f"r{i} = {own}", f"r{i} = {own}", f"write {there} <- {own} {{unsignaled}}",
            f"write {there} = {value} {{inline}}", f"write {there} = {value} {{fence}}",
            f"write {there} = {value} {{relax}}", f"write {there} = {value} {{strong}}",
            f"write {there} = {value} {{badkey}}", f"write {there} = {value} {{nodb}}", f"doorbell {pe}",
            f"write {there} = {value} {{qp=2}}", f"write_imm {there} = {value}", f"send {value}@{pe}",
            f"write_notify {there} = {value}, {signal}@{pe} set {value}", f"read c <- {there}", f"faa {there} += 1",
            f"cas {there} 0 {value}", f"poll_cq {pe}", f"poll_cq {pe} -> e{i}", f"poll_cq {pe} n=2", "poll_recv",
            f"tell {pe}", f"hear {(me - 1) % pes}",
        ]
    )  # fmt: skip


def race_program(rng: random.Random) -> str:
    """As `shmem_program`, of everything that orders or fails to: contexts, signals, locks, collectives."""
    pes = rng.choice([2, 2, 3])
    shape = [rng.choice(["", "", "barrier_all", "sync_all"]) for _ in range(2)]
    lines = []
    for pe in range(pes):
        parts = [_race_call(rng, pe, pes, i) for i in range(rng.choice([2, 3, 4]))]
        for i, meeting in enumerate(shape):
            parts.insert(rng.randint(i, len(parts)) if i else rng.randint(0, 1), meeting)
        if shape[0] and shape[1] and shape[0] != shape[1]:  # in the same order on all PEs
            where = [k for k, part in enumerate(parts) if part in shape]
            parts[where[0]], parts[where[1]] = shape
        lines.append(f"P{pe}: " + "; ".join(part for part in parts if part))
    if rng.random() < 0.2:
        lines = [f"{line.replace(': ', ': lock l; ', 1)}; unlock l" for line in lines]
    head = 'test R "random"', "init x = 0, y = 0, s = 0, l = 0", "local b = 0, c = 0"
    return "\n".join([*head, *lines, "verdict openshmem clean", ""])


def _race_call(rng: random.Random, me: int, pes: int, i: int) -> str:
    pe = rng.choice([other for other in range(pes) if other != me])
    word, value, ctx = rng.choice("xy"), rng.randint(1, 2), rng.choice(["", "", "[c1]"])
    there = f"{word}@{pe}"
    return rng.choice(
        [
            f"put{ctx} {there} = {value}", f"put{ctx} {there} = {value}", f"put_nbi{ctx} {there} <- {word}",
            f"put_nbi{ctx} {there} <- b", f"b = {value}", f"{word} = {value}", f"r{i} = {word}", f"r{i} = {word}",
            f"get r{i} <- {there}", f"get_nbi c <- {there}", f"atomic_set {there} = {value}", f"atomic_add s@{pe} += 1",
            f"put_signal{ctx} {there} = {value}, s@{pe} add 1", f"put_signal_nbi {there} <- {word}, s@{pe} set 1",
            f"r{i} = fetch_add s@{pe} 1", f"r{i} = atomic_fetch {there}", f"fence{ctx}", f"fence{ctx}", f"quiet{ctx}",
            f"quiet{ctx}", f"pe_quiet {pe}", "signal_wait s >= 1", "signal_wait s >= 1", "wait s >= 2",
            f"wait {word} >= 1", f"signal s@{pe} add 1", f"signal s@{pe} set 1",
        ]
    )  # fmt: skip


def meeting_program(rng: random.Random) -> str:
    """Programs whose races depend on who came first: two senders and a receiver, flags and locks, and values that are
    there already."""
    senders = [_sent(rng), rng.choice([_sent(rng), []])]
    if rng.random() < 0.3:
        senders = [["lock l", *each, "unlock l"] for each in senders]
    receiver = rng.choice([["wait f >= 1"], ["signal_wait s >= 1"], ["wait f >= 1", "signal_wait s >= 1"],
                           ["r0 = atomic_fetch f@2"], ["signal_wait s >= 2"], ["r0 = x", "wait f >= 1"]])  # fmt: skip
    lines = [f"P{pe}: {'; '.join(each)}" for pe, each in enumerate([*senders, [*receiver, "r = x"]]) if each]
    return "\n".join(['test R "random"', "init x = 0, f = 0, s = 0, l = 0", *lines, "verdict openshmem clean", ""])


def _sent(rng: random.Random) -> list[str]:
    flag = rng.choice(
        [
            "atomic_set f@2 = 1", "put f@2 = 1", "put f@2 = 1", "put f@2 = 1", "atomic_add f@2 += 0",
            "signal s@2 add 1", "signal s@2 set 1", "r = fetch_add f@2 0", "r = fetch_add f@2 1",
        ]
    )  # fmt: skip
    data = [f"put x@2 = {rng.randint(0, 1)}", rng.choice(["fence", "quiet", "fence"])]
    more = rng.choice([[], [], ["fence", flag], [f"put x@2 = {rng.randint(0, 1)}"]])
    return rng.choice([[*data, flag, *more], [flag, *more], [flag, *data, flag]])
