"""What each rank of ``shmemu demo`` runs: ``python -m moe_ep.demo.job FOLDER``, a job checked before.

The layer runs once to warm up and then as often as asked, each phase timed after a barrier; what takes
milliseconds, the exchange, runs several times in each. Results lie in symmetric arrays, so that rank 0 gets
those of every rank, computes the oracle from the text and the seed alone, compares bit for bit and writes
``FOLDER/report.json``. The launcher shows it and sets the exit code.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import shmem
from moe_ep import EPBuffer, EPHandle, Traffic
from moe_ep.demo import model
from moe_ep.demo.inputs import Job
from moe_ep.demo.judge import judge
from moe_ep.demo.report import EXCHANGES, LEDGERS, PHASES, Results, report_of
from moe_ep.layout import Domain, buffer_size_hint
from shmem.errors import HeapExhausted, ShmemTimeout
from shmem.progress import Progress
from shmem.rank import number

BF16 = np.dtype(ml_dtypes.bfloat16)
Array = NDArray[Any]
HEAP_ROUNDING = 256 << 10  # count words of the buffer, and what blocks lose to alignment
PATIENCE_S = 5.0  # of one wait for the oracle
EXCHANGE_RUNS = 8  # of one layer
STEPS = {"embed": 1, "gate": 3, "dispatch": 1, "experts": 30, "combine": 1, "oracle": 2}  # of the progress bar, by cost


def result_layout(job: Job) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Shape and dtype of each array in which a rank leaves its results; the same on every rank."""
    shape, most = job.shape, most_tokens(job)
    return {
        "outputs": ((most, shape.hidden), BF16),
        "carried": ((most, shape.topk), np.float32),
        "topk_idx": ((most, shape.topk), np.int64),
        "topk_weights": ((most, shape.topk), np.float32),
        "counts": ((shape.experts // job.pes,), np.int32),
        "times_us": ((job.repeat, EXCHANGE_RUNS, len(PHASES)), np.float64),
        "bytes": ((len(EXCHANGES), len(LEDGERS)), np.int64),
        "unstable": ((1,), np.int64),
        "judged": ((1,), np.int64),
    }


def most_tokens(job: Job) -> int:
    """Tokens of the rank that has most, at least 1."""
    blocks = [model.own_tokens(job.tokens, rank, job.pes) for rank in range(job.pes)]
    return max([1, *(int(block.stop - block.start) for block in blocks)])


def heap_bytes(job: Job) -> int:
    """Bytes of symmetric heap that a rank needs: the buffer, the results, and room for rounding."""
    buffer = buffer_size_hint(Domain(1, job.pes), most_tokens(job), job.shape.hidden, job.shape.topk)
    sizes = [np.prod(extent) * np.dtype(dtype).itemsize for extent, dtype in result_layout(job).values()]
    return buffer + int(sum(sizes)) + HEAP_ROUNDING


class Rank:
    """One rank's share of the job: its tokens, its experts, its buffer and its results."""

    def __init__(self, job: Job, progress: Progress) -> None:
        self.job, self.progress = job, progress
        self.me = shmem.my_pe()
        self.own = model.own_tokens(job.tokens, self.me, job.pes)
        first = self.me * job.shape.experts // job.pes
        self.experts = [model.Expert(job.shape, first + e) for e in range(job.shape.experts // job.pes)]
        self.first = b""  # outputs of the first exchange
        self.gate = model.gate_table(job.shape)
        self.results: Results = {
            name: shmem.zeros(extent, dtype) for name, (extent, dtype) in result_layout(job).items()
        }
        self.buffer = EPBuffer(
            num_max_tokens_per_rank=most_tokens(job),
            hidden=job.shape.hidden,
            num_topk=job.shape.topk,
            explicitly_destroy=True,
        )

    def embed(self) -> Array:
        """The own tokens, ``[T,H]`` bf16."""
        trace = self.job.trace
        if trace is not None and trace.x is not None:
            return np.ascontiguousarray(trace.x[self.own])
        return model.embed(self.job.text[self.own], self.job.shape, self.own.start)

    def route(self, x: Array) -> tuple[Array, Array]:
        """Experts and router weights of the own tokens, ``[T,K]`` each; recorded ones if there is a trace."""
        trace = self.job.trace
        if trace is not None:
            return trace.topk_idx[self.own].copy(), trace.topk_weights[self.own].copy()
        return model.route(model.gate(x, self.gate), self.job.shape.topk)

    def run(self) -> None:
        """The layer, ``repeat`` times after a first one that isn't timed; leaves all in ``results``."""
        for repetition in range(-1, self.job.repeat):
            clock = Clock(self.progress)
            self.layer(clock)
            if repetition >= 0:
                self.results["times_us"][repetition] = clock.table()

    def layer(self, clock: Clock) -> None:
        """The layer once; its exchange runs several times."""
        experts = self.job.shape.experts
        with clock("embed"):
            x = self.embed()
        with clock("gate"):
            idx, weights = self.route(x)
        with clock("dispatch"):
            recv_x, recv_idx, recv_weights, handle, _ = self.buffer.dispatch(x, idx, weights, num_experts=experts)
        self._count("dispatch", self.buffer.last_traffic)
        assert recv_weights is not None, "weights were sent"
        with clock("experts"):
            y = model.rank_rows(recv_x, recv_idx, recv_weights, self.experts)
        with clock("combine"):
            outputs, carried, _ = self.buffer.combine(y, handle, topk_weights=recv_weights)
        self._count("combine", self.buffer.last_traffic)
        assert carried is not None, "weights were given"
        self._compare(outputs)
        for _ in range(EXCHANGE_RUNS - 1):
            with clock("dispatch"):
                self.buffer.dispatch(x, idx, weights, num_experts=experts)
            with clock("combine"):
                again, _, _ = self.buffer.combine(y, handle, topk_weights=recv_weights)
            self._compare(again)
        self._keep(handle, outputs=outputs, carried=carried, topk_idx=idx, topk_weights=weights)

    def _compare(self, outputs: Array) -> None:
        """Every run of the exchange, in any repetition, gives the bits of the first one."""
        self.first = self.first or outputs.tobytes()
        if outputs.tobytes() != self.first:
            self.results["unstable"][0] = 1

    def _count(self, exchange: str, traffic: Traffic | None) -> None:
        assert traffic is not None, "the buffer counts every exchange"
        self.results["bytes"][EXCHANGES.index(exchange)] = [getattr(traffic, name) for name in LEDGERS]

    def _keep(self, handle: EPHandle, **arrays: Array) -> None:
        self.results["counts"][:] = handle.num_unaligned_recv_tokens_per_expert
        for name, array in arrays.items():
            self.results[name][: len(array)] = array

    def gather(self) -> list[Results]:
        """On rank 0 the results of every rank, copied out of their heaps; on others nothing. Collective."""
        shmem.barrier_all()
        gathered: list[Results] = []
        for pe in range(self.job.pes if self.me == 0 else 0):
            copies = {name: np.empty(array.shape, array.dtype) for name, array in self.results.items()}
            for name, copy in copies.items():
                shmem.get(copy, self.results[name], pe)
            gathered.append(copies)
        shmem.barrier_all()
        return gathered

    def dismiss(self) -> None:
        """On rank 0: tells the others that it has judged their results."""
        for pe in range(1, self.job.pes):
            shmem.p(self.results["judged"], 1, pe)

    def wait_for_verdict(self) -> None:
        """On the others: waits for that, however long rank 0 computes. A barrier has a deadline, and after 10 s
        each of them would say on stderr that rank 0 is late."""
        judged = self.results["judged"]
        while not shmem.test(judged, "==", 1):
            with contextlib.suppress(ShmemTimeout):
                shmem.wait_until(judged, "==", 1, timeout=PATIENCE_S)

    def close(self) -> None:
        """Frees what the rank has in the heap. Collective."""
        self.buffer.destroy()
        for array in reversed(self.results.values()):
            shmem.free(array)


class Clock:
    """``with clock(phase):`` times a phase after a barrier: none pays for the imbalance of the one before."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.times_us: dict[str, list[float]] = {phase: [] for phase in PHASES}

    @contextlib.contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        self.progress.now(phase)
        shmem.barrier_all()
        started_ns = time.perf_counter_ns()
        yield
        self.times_us[phase].append((time.perf_counter_ns() - started_ns) / 1000)
        self.progress.advance(STEPS[phase])

    def table(self) -> Array:
        """``[EXCHANGE_RUNS, phases]``: the times in us, NaN for what ran less often."""
        table = np.full((EXCHANGE_RUNS, len(PHASES)), np.nan)
        for column, times in enumerate(self.times_us.values()):
            table[: len(times), column] = times
        return table


def steps(job: Job) -> int:
    """Steps of the progress bar: those of each layer, then the experts of the oracle."""
    layer = sum(STEPS[phase] * (EXCHANGE_RUNS if phase in EXCHANGES else 1) for phase in PHASES)
    return (job.repeat + 1) * layer + job.shape.experts * STEPS["oracle"]


def main(folder: Path) -> None:
    """Runs the job in ``folder`` on this rank. Collective; rank 0 leaves ``report.json`` there, whole.

    If the machine has no room for the heaps, ``refused`` with the reason instead.
    """
    job = Job.load(folder)
    try:
        shmem.init(heap_size=heap_bytes(job))
    except HeapExhausted as error:  # raised on every rank
        if number() == 0:
            (folder / "refused").write_text(f"{error}, or take fewer --tokens")
        return
    if shmem.n_pes() != job.pes:
        raise SystemExit(f"the job in {folder} is for {job.pes} PEs, this one has {shmem.n_pes()}")
    progress = Progress(steps(job))
    rank = Rank(job, progress)
    rank.run()
    gathered = rank.gather()
    if rank.me == 0:
        progress.now("oracle")
        difference = judge(job, gathered, lambda *_: progress.advance(STEPS["oracle"]))
        report = report_of(job, gathered, difference)
        unfinished = folder / "report.json.part"
        unfinished.write_text(json.dumps(report, indent=1))
        os.replace(unfinished, folder / "report.json")
        rank.dismiss()
    else:
        rank.wait_for_verdict()
    rank.close()
    progress.close()
    shmem.finalize()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
