"""Virtual time against closed forms: what LogGP says of small programs, computed here by hand.

L latency, o overhead of the sender, r that of a program that waited, g gap, G time a byte; `S(n)` is (n-1) G.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmem
from shmem import nic
from shmem.check.timing import Timing, simulate
from shmem.delivery.model import Link, Model
from shmem.delivery.profiles import NAMED

L, o, g, G, r = 2.0, 0.3, 0.4, 0.01, 0.25
MODEL = Model("hand", {"network": Link(L, o, g, 1e-3 / G)}, receive_us=r)
BUSY = Model("a slow processor", {"network": Link(L, 5.0, g, 1e-3 / G)}, receive_us=r)
SIGNAL = 8  # bytes of a flag, which travels behind its data


def S(n: int) -> float:  # noqa: N802
    return (n - 1) * G


def us() -> float:
    return shmem.virtual_time() * 1e6


def measured(part: Callable[[Any], None], n: int, model: Model = MODEL, profile: Any = "srd", **more: Any) -> Timing:
    """A run in which all come to a barrier, then do their part. Its results: how long that took each."""

    def program() -> float:
        box = shmem.zeros(1 << 13, np.uint8)
        signal = shmem.zeros(1, np.uint64)
        shmem.barrier_all()
        start = us()
        part((shmem.my_pe(), box, signal))
        return us() - start

    return simulate(program, n, model, profile, **more)


def times(*args: Any, **more: Any) -> list[float]:
    return measured(*args, **more).results


def about(*expected: float) -> Any:
    return pytest.approx(list(expected), rel=1e-9, abs=1e-9)


def data(n: int) -> Any:
    return np.arange(n).astype(np.uint8)


@pytest.mark.parametrize("profile", sorted(NAMED))
@pytest.mark.parametrize("n", [1, 8, 1000, 8192])
def test_one_message(n: int, profile: str) -> None:
    def part(pe: Any) -> None:
        me, box, signal = pe
        if me == 0:
            source = data(n)
            shmem.put_signal_nbi(box[:n], source, 1, signal, 1, shmem.SIGNAL_SET)
            shmem.pe_quiet([1])
        else:
            shmem.signal_wait_until(signal, "==", 1)
            assert (box[:n] == data(n)).all()

    found = measured(part, 2, profile=profile)
    assert found.results == about(o + S(n + SIGNAL) + 2 * L + r, o + S(n + SIGNAL) + L + r)
    [traffic] = found.traffic.values()
    assert (traffic.messages, traffic.bytes) == (1, n + SIGNAL)


def test_quiet_waits_for_the_acknowledgement_and_flush_local_for_the_last_byte_sent() -> None:
    def part(pe: Any, ends: list[float]) -> None:
        me, box, _ = pe
        if me == 0:
            start, source = us(), data(1000)
            shmem.put_nbi(box[:1000], source, 1)
            shmem.flush_local()
            ends.append(us() - start)
            shmem.quiet()
            ends.append(us() - start)
            shmem.quiet()  # of nothing
            ends.append(us() - start)

    ends: list[float] = []
    measured(lambda pe: part(pe, ends), 2)
    read, acknowledged = o + S(1000) + r, o + S(1000) + L + L + r
    assert ends == about(read, acknowledged, acknowledged)


def test_a_get_is_a_round_trip_and_its_bytes_once() -> None:
    def part(pe: Any) -> None:
        me, box, _ = pe
        if me == 0:
            shmem.get(np.zeros(500, np.uint8), box[:500], 1)

    found = measured(part, 2)
    assert found.results == about(o + L + S(500) + L + r, 0)
    assert (found.messages, found.bytes) == (2, 500)


def test_a_fetching_atomic_is_a_round_trip_of_its_word() -> None:
    def part(pe: Any) -> None:
        me, _, signal = pe
        if me == 0:
            shmem.atomic_fetch_inc(signal, 1)

    assert times(part, 2) == about(o + S(8) + L + S(8) + L + r, 0)


@pytest.mark.parametrize("rounds", [1, 10])
def test_ping_pong(rounds: int) -> None:
    def part(pe: Any) -> None:
        me, _, signal = pe
        for i in range(1, rounds + 1):
            if me == 0:
                shmem.signal_set(signal, i, 1)
            shmem.signal_wait_until(signal, "==", i)
            if me == 1:
                shmem.signal_set(signal, i, 0)

    half = o + S(8) + L + r
    assert times(part, 2) == about(2 * rounds * half, (2 * rounds - 1) * half + o)


@pytest.mark.parametrize("model", [MODEL, BUSY], ids=lambda model: model.name)
@pytest.mark.parametrize("k", [1, 2, 50])
def test_many_puts_go_as_fast_as_the_slower_of_processor_and_port(k: int, model: Model) -> None:
    def part(pe: Any) -> None:
        me, box, _ = pe
        if me == 0:
            for _ in range(k):
                shmem.put(box, data(20), 1)
            shmem.quiet()

    mine = model.link("network").overhead_us
    assert times(part, 2, model) == about(mine + (k - 1) * max(mine, S(20) + g) + S(20) + L + L + r, 0)


@pytest.mark.parametrize("senders", [1, 2, 7])
def test_what_many_send_to_one_comes_one_after_the_other(senders: int) -> None:
    def part(pe: Any) -> None:
        me, box, signal = pe
        if me == 0:
            shmem.signal_wait_until(signal, "==", senders)
        else:
            shmem.put_signal(box[100 * me : 100 * me + 100], data(100), 0, signal, 1, shmem.SIGNAL_ADD)

    n = 100 + SIGNAL
    assert times(part, senders + 1)[0] == pytest.approx(o + L + senders * S(n) + (senders - 1) * g + r)


@pytest.mark.parametrize("n", [2, 3, 8, 16])
def test_all_to_all_in_turns_never_waits_at_a_receiver(n: int) -> None:
    def part(pe: Any) -> None:
        me, box, _ = pe
        for d in range(1, n):
            shmem.put(box[30 * me : 30 * me + 30], data(30), (me + d) % n)
        shmem.quiet()

    found = measured(part, n)
    assert found.results == about(*[o + (n - 2) * max(o, S(30) + g) + S(30) + 2 * L + r] * n)
    assert (found.messages, found.bytes) == (n * (n - 1), n * (n - 1) * 30)


@pytest.mark.parametrize("n", [2, 5])
def test_a_pipeline(n: int) -> None:
    def part(pe: Any) -> None:
        me, box, signal = pe
        if me:
            shmem.signal_wait_until(signal, "==", 1)
        if me + 1 < n:
            shmem.put_signal(box, data(64), me + 1, signal, 1, shmem.SIGNAL_SET)

    hop = o + S(64 + SIGNAL) + L + r
    assert times(part, n) == about(*[pe * hop + (o if pe + 1 < n else 0) for pe in range(n)])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9])
def test_a_barrier_takes_its_rounds_after_the_last_one_came(n: int) -> None:
    def part(pe: Any) -> None:
        shmem.compute(pe[0] * 3e-6)
        shmem.sync_all()

    rounds = math.ceil(math.log2(n))
    assert times(part, n) == about(*[(n - 1) * 3 + rounds * (o + L + r)] * n)


def test_a_new_team_in_the_slot_of_an_old_one_waits_for_all() -> None:
    def part(pe: Any) -> None:
        for pes in ([0, 1, 2], [0, 3]):
            team = shmem.team_from_pes(pes)
            if pe[0] in pes:
                for _ in range(3):
                    shmem.compute(pe[0] * 1e-3)
                    shmem.team_sync(team)
                shmem.team_destroy(team)
            shmem.barrier_all()

    assert all(us > 3 * (2e3 + 3e3) for us in times(part, 4))


def test_computing_takes_its_time_and_hides_what_is_under_way() -> None:
    def part(pe: Any) -> None:
        me, box, _ = pe
        if me == 0:
            shmem.put(box, data(100), 1)
            shmem.compute(1e-3)
            shmem.quiet()

    assert times(part, 2) == about(o + 1000, 0)


def test_what_is_computed_before_a_message_delays_it() -> None:
    def part(pe: Any) -> None:
        me, _, signal = pe
        if me == 0:
            shmem.compute(7e-6)
            shmem.signal_set(signal, 1, 1)
        else:
            shmem.signal_wait_until(signal, "==", 1)

    assert times(part, 2)[1] == pytest.approx(7 + o + S(8) + L + r)


@pytest.mark.parametrize("profile", sorted(NAMED))
def test_a_load_gives_what_was_there_at_its_time(profile: str) -> None:
    """A PE reads a word of its own while another changes it: by gets of the others, and by its own loads."""

    def program() -> list[int]:
        word, seen = shmem.zeros(1, np.int64), []
        shmem.barrier_all()
        if shmem.my_pe() == 0:
            for value in range(1, 4):
                shmem.compute(10e-6)
                word[0] = value  # at 10, 20 and 30 us
        else:
            for _ in range(4):
                seen.append(int(shmem.g(word, 0)))  # read at about 2, 12, 22, 32 us
                shmem.compute(10e-6 - (o + 2 * L + S(8) + r) * 1e-6)
        shmem.barrier_all()
        return seen

    assert shmem.run(program, 2, profile=profile, clock=MODEL)[1] == [0, 1, 2, 3]


def test_links_by_where_the_pes_are() -> None:
    links = {"self": Link(latency_us=1.0), "node": Link(latency_us=10.0), "network": Link(latency_us=100.0)}

    def part(pe: Any) -> None:
        me, _, signal = pe
        if me == 1:
            for target in (1, 2, 3):  # the same PE, the next node, the next node
                shmem.p(signal, 1, target)
                shmem.quiet()
            shmem.p(signal, 1, 0)
            shmem.quiet()

    found = measured(part, 4, Model("nodes of two", links, pes_per_node=2))
    assert found.results[1] == pytest.approx(2 * (1 + 100 + 100 + 10))
    assert {kind: each.messages for kind, each in found.traffic.items()} == {"self": 1, "network": 2, "node": 1}


@pytest.mark.parametrize("kind", ["load", "store"])
def test_accesses_of_symmetric_memory(kind: str) -> None:
    def part(pe: Any) -> None:
        me, box, _ = pe
        for i in range(5):
            if kind == "load":
                int(box[i])
            else:
                box[i] = me

    model = Model("slow memory", {"network": Link()}, access_us=0.5)
    assert times(part, 2, model, "rc_strict") == about(2.5, 2.5)


def test_workers_of_a_pe_run_at_the_same_time() -> None:
    def part(pe: Any) -> None:
        def work(i: int) -> None:
            shmem.compute((i + 1) * 1e-6)
            shmem.worker_barrier()
            shmem.compute(1e-6)

        shmem.workers(3, work)

    assert times(part, 1) == about(4)


def queue_pair(target: Any) -> tuple[nic.QueuePair, nic.CompletionQueue, Any]:
    """To PE 1, with the remote memory."""
    remote = nic.import_segment(nic.register(target), 1)
    cq = nic.CompletionQueue()
    return nic.QueuePair(1, cq), cq, remote


@pytest.mark.parametrize("looks", [False, True])
@pytest.mark.parametrize("profile", ["rc_strict", "udma"])
def test_a_work_request_leaves_at_its_doorbell_and_completes_when_it_is_acknowledged(looks: bool, profile: str) -> None:
    def part(pe: Any) -> None:
        me, box, _ = pe
        source = shmem.zeros(100, np.uint8)
        if me == 0:
            qp, cq, remote = queue_pair(box)
            start = us()
            qp.post(nic.WorkRequest(nic.WRITE, local=source, remote=remote, doorbell=False))
            shmem.compute(10e-6)
            qp.doorbell()
            if looks:
                while not cq.poll():
                    pass
            else:
                cq.wait()
            assert us() - start == pytest.approx(o + 10 + S(100) + 2 * L + (0 if looks else r))
        else:
            nic.register(box)
            shmem.compute(1e-3)  # so that there is always something to come

    measured(part, 2, profile=profile)


@pytest.mark.parametrize("first", ["send", "receive"])
def test_a_message_is_taken_when_both_it_and_a_receive_are_there(first: str) -> None:
    posts = 50.0 if first == "send" else 0.0

    def part(pe: Any) -> None:
        me, box, _ = pe
        cq = nic.CompletionQueue()
        qp = nic.QueuePair(1 - me, cq, cq)
        nic.register(box)
        start = us()
        if me == 0:
            qp.post(nic.WorkRequest(nic.SEND, local=box[:64]))
        else:
            shmem.compute(posts * 1e-6)
            qp.post_recv(box[64:128])
            cq.wait()
            assert us() - start == pytest.approx(max(posts, o + S(64) + L) + r)

    measured(part, 2, profile="rc_strict")


def test_the_same_seed_gives_the_same_times_and_others_other_orders() -> None:
    def program() -> tuple[list[int], float]:
        counter = shmem.zeros(1, np.int64)
        tickets = [int(shmem.atomic_fetch_inc(counter, 0)) for _ in range(3)]
        return tickets, us()

    def run(seed: int | None) -> Any:
        found = simulate(program, 6, MODEL, seed=seed)
        return found.results, found.finish_us, found.events

    assert run(None) == run(None)
    assert run(3) == run(3)
    assert len({str(run(seed)[0]) for seed in range(8)}) > 4


def test_when_each_pe_was_over() -> None:
    def program() -> None:
        shmem.compute(5e-6 * shmem.my_pe())

    found = simulate(program, 3, MODEL)
    assert found.finish_us == about(0, 5, 10)
    assert (found.end_us, found.messages) == (pytest.approx(10), 0)
    assert str(found).splitlines() == ["PE 0: 0.000 us", "PE 1: 5.000 us", "PE 2: 10.000 us"]


def test_without_a_clock_there_is_no_time() -> None:
    def program() -> tuple[float, float]:
        before = shmem.virtual_time()
        shmem.compute(1.0)
        return before, shmem.virtual_time()

    assert shmem.run(program, 1) == [(0.0, 0.0)]


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf, "1", True])
def test_what_is_no_time_is_refused(seconds: Any) -> None:
    with pytest.raises(shmem.ArgumentError, match="seconds"):
        shmem.run(lambda: shmem.compute(seconds), 1, clock=MODEL)


def test_a_deadlock_is_one_with_a_clock_too() -> None:
    def program() -> None:
        flag = shmem.zeros(1, np.int64)
        shmem.wait_until(flag, "==", 1)

    with pytest.raises(shmem.ShmemTimeout, match=r"deadlock: .*PE 1 waits in wait"):
        shmem.run(program, 2, clock=MODEL)


def test_a_failure_is_one_with_a_clock_too() -> None:
    def program() -> None:
        shmem.compute(1e-6)
        assert shmem.my_pe() != 1, "one"

    with pytest.raises(AssertionError, match="one"):
        shmem.run(program, 3, clock=MODEL)
