"""A batch refuses every block outside its arrays, and blocks and jobs that are gone, before a record runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

import shmem

pytestmark = pytest.mark.mpi
I64 = npt.NDArray[np.int64]
TOP = (1 << 63) - 1


def _i(*values: int) -> I64:
    return np.array(values, np.int64)


PUTS: dict[str, tuple[object, object, object, object, type[Exception]]] = {
    "target offset that wraps": (_i(TOP - 3), _i(0), 8, _i(0), shmem.SizeMismatch),
    "source offset that wraps": (_i(0), _i(TOP - 3), 8, _i(0), shmem.SizeMismatch),
    "negative target offset": (_i(-8), _i(0), 8, _i(0), shmem.SizeMismatch),
    "one byte too far": (_i(57), _i(0), 8, _i(0), shmem.SizeMismatch),
    "negative width": (_i(0), _i(0), -8, _i(0), shmem.SizeMismatch),
    "one width of two too large": (_i(0, 8), _i(0, 8), _i(8, 64), _i(0, 0), shmem.SizeMismatch),
    "unsigned offset beyond int64": (np.array([2**64 - 8], np.uint64), _i(0), 8, _i(0), shmem.SizeMismatch),
    "float offsets": (np.array([0.5]), _i(0), 8, _i(0), shmem.DtypeError),
    "float PEs": (_i(0), _i(0), 8, np.array([0.0]), shmem.DtypeError),
    "offsets of another length": (_i(0), _i(0, 8), 8, _i(0, 0), shmem.SizeMismatch),
    "a PE that does not exist": (_i(0), _i(0), 8, _i(99), shmem.InvalidPE),
}


@pytest.mark.parametrize("case", PUTS)
def test_put_many_refuses(case: str) -> None:
    targets, sources, width, pes, error = PUTS[case]
    target = shmem.full(8, 7, np.int64)
    batch = shmem.Batch()
    with pytest.raises(error):
        batch.put_many(target, targets, np.zeros(8, np.int64), sources, width, pes)  # type: ignore[arg-type]
    assert len(batch) == 0
    shmem.barrier_all()
    assert (target == 7).all()
    shmem.free(target)


def _copy(rows_to: object, rows_from: object, stride: int = 8) -> Callable[[shmem.Batch], None]:
    def build(batch: shmem.Batch) -> None:
        batch.copy_rows(np.zeros(8, np.int64), rows_to, stride, np.zeros(8, np.int64), rows_from, 8, 8)  # type: ignore[arg-type]

    return build


LOCAL: dict[str, Callable[[shmem.Batch], None]] = {
    "fewer source rows than target rows": _copy(_i(0, 1, 2, 3), _i(0)),
    "a row number that wraps with its stride": _copy(_i(1 << 61), _i(0)),
    "a row beyond the target": _copy(_i(8), _i(0)),
    "a row beyond the source": _copy(_i(0), _i(8)),
    "a term that wraps": lambda batch: batch.reduce_rows(
        np.zeros((1, 2), np.uint16), 4, _i(TOP - 1).reshape(1, 1), np.zeros(4, np.uint16), 2
    ),
}


@pytest.mark.parametrize("case", LOCAL)
def test_local_rows_refuse(case: str) -> None:
    batch = shmem.Batch()
    with pytest.raises(shmem.SizeMismatch):
        LOCAL[case](batch)
    assert len(batch) == 0


def test_words_are_whole_and_aligned() -> None:
    words = shmem.zeros(4, np.int64)
    batch = shmem.Batch()
    with pytest.raises(shmem.DtypeError):
        batch.signal(words, 0.5, 1, 0)  # type: ignore[arg-type]
    with pytest.raises(shmem.SizeMismatch):
        batch.signal(words, 4, 1, 0)
    odd = words.view(np.uint8)[4:20].view(np.int64)
    with pytest.raises(shmem.LayoutError):
        batch.signal(odd, 0, 1, 0)
    with pytest.raises(shmem.LayoutError):
        batch.wait(odd, "==", 0)
    assert len(batch) == 0
    shmem.free(words)


def test_a_batch_does_not_outlive_its_block() -> None:
    target = shmem.zeros(8, np.int64)
    batch = shmem.Batch()
    batch.put(target, np.ones(8, np.int64), shmem.my_pe())
    shmem.free(target)
    with pytest.raises(shmem.FreedBlock):
        batch.run()


def test_a_read_only_target_is_refused() -> None:
    target = shmem.zeros(4, np.int64)
    fixed = target.view()
    fixed.flags.writeable = False
    batch = shmem.Batch()
    for call in (
        lambda: batch.put(fixed, np.ones(4, np.int64), 0),
        lambda: shmem.put(fixed, np.ones(4, np.int64), 0),
        lambda: shmem.p(fixed[:1], 1, 0),
        lambda: shmem.atomic_add(fixed[:1], 1, 0),
    ):
        with pytest.raises(shmem.ArgumentError, match="read-only"):
            call()
    shmem.barrier_all()
    assert (target == 0).all()
    shmem.free(target)


@pytest.mark.parametrize(("width", "n"), [(0, 1 << 62), (0, 1), (8, 1 << 62), (8, 3)])
def test_repeating_what_changes_nothing_ends(width: int, n: int) -> None:
    """Blocks without bytes, or one and the same block: a loop over 2^62 of them would not end."""
    me = shmem.my_pe()
    target, rows = shmem.full(4, 7, np.int64), np.full(4, 7, np.int64)
    source = _i(1, 2, 3, 4)
    batch = shmem.Batch()
    batch.put_strided(target, 8, 0, source, 16, 0, width, n, me)
    batch.copy_rows(rows, None, 0, source, None, 0, width, n)
    assert len(batch) == (2 if width else 0)
    batch.run()
    shmem.barrier_all()
    assert target.tolist() == ([7, 3, 7, 7] if width else [7, 7, 7, 7])
    assert rows.tolist() == ([1, 7, 7, 7] if width else [7, 7, 7, 7])
    for wrong in ((batch.put_strided, (target, 40, 0, source, 0, 0, 0, n, me)),
                  (batch.put_strided, (target, 0, 1, source, 0, 0, 8, 1 << 62, me)),
                  (batch.put_strided, (target, 0, 0, source, 0, 0, 0, n, 99)),
                  (batch.copy_rows, (rows, None, 64, source, None, 0, 0, 2))):  # fmt: skip
        with pytest.raises(shmem.ArgumentError):
            wrong[0](*wrong[1])
    shmem.barrier_all()
    shmem.free(target)
