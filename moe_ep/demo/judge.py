"""Whether what the ranks of the demo computed is right: every bit of it against the oracle.

The oracle gets the text (or the recorded trace) and the seed, never an array of the distributed run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from moe_ep import reference
from moe_ep.demo.inputs import Job
from moe_ep.demo.report import Array, Results


def judge(job: Job, gathered: list[Results], told: Callable[..., None]) -> str | None:
    """None if what the ranks computed equals the oracle bit for bit, else the first difference in a sentence.

    ``gathered``: what each rank left. ``told`` is called after each expert that the oracle has computed.
    """
    unstable = [rank for rank, results in enumerate(gathered) if results["unstable"][0]]
    if unstable:
        return f"rank {unstable[0]}: outputs of two repetitions differ"
    trace = None if job.trace is None else (job.trace.topk_idx, job.trace.topk_weights, job.trace.x)
    shape = job.shape
    sizes = (job.pes, shape.experts, shape.topk, shape.hidden, shape.inner)
    want = reference.moe_layer(job.text, shape.seed, *sizes, trace, told)
    checks: list[tuple[str, Sequence[Array], str]] = [
        ("topk_idx", want.topk_idxs, "token position"),
        ("topk_weights", want.topk_weights, "token position"),
        ("counts", [received.counts for received in want.received], "expert"),
        ("outputs", want.outputs, "token element"),
        ("carried", want.carried, "token position"),
    ]
    for name, expected, axes in checks:
        for rank, array in enumerate(expected):
            got = gathered[rank][name][: len(array)]
            nan = "position" if name == "outputs" else "bits"
            found = reference.difference(array, got, f"rank {rank}: {name}", axes, nan)
            if found is not None:
                return found
    return None
