"""How fast is the expert-parallel dispatch against mpi4py's Alltoallv with the same deduplication?

    python benchmarks/dispatch.py --pes 2,4,8 [--tokens 4096 --hidden 7168 --topk 8 --experts 256] [--out DIR]
    python benchmarks/dispatch.py --quick          only that both give the same rows, with small sizes

Two times a call, as upstream counts them: the *exchange* (routing, counts, pushes, barriers: the rows lie in the
receive area) and the *whole call* (with the copy into arrays that the caller owns). It starts one job a number of
PEs; a round takes the slowest PE. The exchange is timed with all records in the receive area, those to the own
rank included; the whole call as users get it, which copies own rows once, from x to the output. The peer receives
into its reused buffer and hands that out, without a copy.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import common
import numpy as np

TARGETS = {"exchange": 3.0, "whole call": 1.7}  # at 4096 tokens; other sizes have none
PEER = "mpi4py Alltoallv"


def main() -> int:
    args = _arguments()
    if args.result:
        return run_rank(args)
    report = common.header("dispatch")
    if odd := [pes for pes in args.pes if pes < 1 or args.experts % pes]:
        print(f"{args.experts} experts can't be divided among {odd[0]} PEs", file=sys.stderr)
        return 2
    for pes in args.pes:
        if lacking := _short_of_memory(pes, args):
            print(f"{pes} PEs: skipped: {lacking}")
            report["peers_absent"][f"{pes} PEs"] = lacking
            continue
        if code := _run_job(pes, args, report):
            return code
    common.show(report)
    common.finish(report, args.out)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pes", type=lambda text: [int(n) for n in text.split(",")], default=[2, 4, 8])
    for name, default in (("tokens", 4096), ("hidden", 7168), ("topk", 8), ("experts", 256)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rounds", type=int, default=common.ROUNDS_MIN)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="correctness with small sizes, no claims")
    parser.add_argument("--out", default="out")
    parser.add_argument("--result", help=argparse.SUPPRESS)  # a rank's: where PE 0 writes its numbers
    args = parser.parse_args()
    if args.quick:
        args.tokens, args.hidden, args.experts, args.rounds = 128, 512, 48, 1
    return args


def _row_bytes(args: argparse.Namespace) -> int:
    return 2 * args.hidden + 256


def _short_of_memory(pes: int, args: argparse.Namespace) -> str | None:
    """Rows lie in x, the receive area, the output, and the peer's two buffers; all but x once for each rank."""
    copies = min(pes, args.topk)
    needed = pes * args.tokens * _row_bytes(args) * (2 + 4.5 * copies) / (1 << 30)
    available = common.memory_gib("MemAvailable")
    if needed < 0.9 * available:
        return None
    return f"needs about {needed:.1f} GiB of memory, {available:.1f} GiB are available"


def _run_job(pes: int, args: argparse.Namespace, report: dict[str, Any]) -> int:
    from shmem import launch

    heap = args.tokens * pes * _row_bytes(args) + (16 << 20)
    options = [f"--{name}={getattr(args, name)}" for name in ("tokens", "hidden", "topk", "experts", "rounds", "seed")]
    with tempfile.TemporaryDirectory(prefix="shmemu-bench-") as folder:
        result = Path(folder) / "result.json"
        program = [str(Path(__file__).resolve()), *options, f"--result={result}"]
        code = launch.run_job(pes, program, env={"SHMEMU_HEAP_SIZE": str(heap)})
        if code:
            print(f"{pes} PEs: the job ended with exit code {code}", file=sys.stderr)
            return code
        found = json.loads(result.read_text(encoding="utf-8"))
    report["mpi"] = found["mpi"]
    if args.quick:
        print(f"{pes} PEs: both give the same {found['rows']} rows")
        return 0
    shape = f"{pes} PEs, T={args.tokens}, {{}}"
    for phase, target in TARGETS.items():
        ours, peer = found[f"ours, {phase}"][phase], found[PEER][phase]
        case = shape.format(phase)
        report["rows"] += [
            common.row("dispatch", case, what, "ms", [1e3 * s for s in samples])
            for what, samples in (("ours", ours), (PEER, peer))
        ]
        goal = target if args.tokens == 4096 else None
        report["ratios"].append(common.ratio(case, PEER, ours, peer, goal, report["load_before"]))
    return 0


# ------------------------------------------------------------------------------------------ in a rank


def run_rank(args: argparse.Namespace) -> int:
    """One PE: inputs, both parties, the check that they agree, the rounds; PE 0 writes the slowest PE's times."""
    import ml_dtypes
    from alltoallv import AlltoallvDispatch
    from mpi4py import MPI

    import moe_ep.dispatch as dispatching
    import shmem
    from moe_ep import EPBuffer

    me = shmem.my_pe()
    rng = np.random.default_rng([args.seed, me])
    x = rng.integers(0, 1 << 15, (args.tokens, args.hidden), np.uint16).view(ml_dtypes.bfloat16)
    idx = rng.random((args.tokens, args.experts), np.float32).argsort(axis=1)[:, : args.topk].astype(np.int64)
    weights = rng.random((args.tokens, args.topk), np.float32)
    buffer = EPBuffer(
        num_max_tokens_per_rank=args.tokens, hidden=args.hidden, num_topk=args.topk, explicitly_destroy=True
    )
    peer = AlltoallvDispatch(MPI.COMM_WORLD, args.tokens, args.hidden, args.topk, args.experts)
    watch = common.Watch()
    copy_out = dispatching.epilogue

    def epilogue(*given: Any) -> Any:
        watch.mark("exchange")  # of the very call that is timed: its exchange is over when its epilogue begins
        return copy_out(*given)

    dispatching.epilogue = epilogue

    def ours(phase: str) -> dict[str, float]:
        nonlocal watch
        buffer.keep_own = phase == "whole call"
        watch = common.Watch()
        out = buffer.dispatch(x, idx, weights, num_experts=args.experts)
        watch.mark("whole call")
        del out
        return {phase: watch.seconds[phase]}

    def theirs() -> dict[str, float]:
        own = common.Watch()
        rows = peer.exchange(x, idx, weights)
        own.mark("exchange")
        peer.finish(rows)
        own.mark("whole call")
        return own.seconds

    rows = _check_agreement(buffer, peer, x, idx, weights, args.experts)
    parties = {**{f"ours, {phase}": partial(ours, phase) for phase in TARGETS}, PEER: theirs}
    common.interleaved(2, parties, shmem.barrier_all)  # touches all pages, and MPI's own buffers
    seconds = common.interleaved(args.rounds, parties, shmem.barrier_all)
    everyone = MPI.COMM_WORLD.gather(seconds, root=0)
    buffer.destroy()
    if everyone is not None:
        slowest = {
            party: {phase: np.max([one[party][phase] for one in everyone], axis=0).tolist() for phase in phases}
            for party, phases in seconds.items()
        }
        library = MPI.Get_library_version().split("\n")[0].strip("\0 ")
        Path(args.result).write_text(json.dumps({**slowest, "mpi": library, "rows": rows}), encoding="utf-8")
    return 0


def _check_agreement(buffer: Any, peer: Any, x: Any, idx: Any, weights: Any, experts: int) -> int:
    """Both give the same rows, ids, weights and counts, in the same order; returns the number of rows here."""
    recv_x, recv_idx, recv_weights, handle, _ = buffer.dispatch(x, idx, weights, num_experts=experts)
    rows, ids, back, counts = peer.finish(peer.exchange(x, idx, weights))
    for name, ours, theirs in (
        ("rows", recv_x.view(np.uint16), rows),
        ("ids", recv_idx, ids),
        ("weights", recv_weights, back),
        ("counts", handle.num_unaligned_recv_tokens_per_expert, counts),
    ):
        if not np.array_equal(ours, theirs):
            raise AssertionError(f"PE {buffer.rank_idx}: {name} differ from those of {PEER}")
    return len(recv_x)


if __name__ == "__main__":
    sys.exit(main())
