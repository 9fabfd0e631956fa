"""Arrays shared with others: buffer protocol, DLPack, torch; and what a pickle of a symmetric array holds."""

from __future__ import annotations

import importlib.util
import pickle
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import shmem
from shmem import config, interop

from .data import COMPLEX, DTYPES, FLOATS, INTEGERS, SMALL_FLOATS, Array, dtype_id, payload, same

pytestmark = [pytest.mark.mpi, pytest.mark.deadline(120)]

WITHOUT = importlib.util.find_spec("torch") is None and "torch" not in config.read().require
without_torch = pytest.mark.skipif(WITHOUT, reason="torch is not installed (the extra shmemu[torch])")
small = pytest.mark.mpi(max_size=2)  # what is shared is shared on one PE; torch takes seconds to import on each
KNOWN = [np.dtype("?"), *INTEGERS, *FLOATS[:3], *COMPLEX[:2]]
NEW = [np.dtype(ml_dtypes.bfloat16)] + [
    np.dtype(getattr(ml_dtypes, name))
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
]
UNKNOWN = ["g", "G", "S5", "U3", "M8[ns]", ">i4", [("tag", "i4")], ml_dtypes.float8_e4m3b11fnuz]


def shares(view: Array, x: Array) -> bool:
    """Whether two arrays are the same bytes, element by element."""
    return (
        view.shape == x.shape and view.strides == x.strides
        and view.__array_interface__["data"][0] == x.__array_interface__["data"][0]
    )  # fmt: skip


@pytest.mark.parametrize("dtype", KNOWN, ids=dtype_id)
def test_dlpack_and_buffers_share_memory(dtype):
    n, me = shmem.n_pes(), shmem.my_pe()
    x = shmem.zeros((3, 4), dtype)
    through, buffer = np.from_dlpack(x), memoryview(x)
    assert shares(through, x)
    assert shares(np.asarray(buffer), x)
    shmem.put(through, payload(dtype, 12, me), (me + 1) % n)  # still symmetric
    shmem.barrier_all()
    came = payload(dtype, 12, (me - 1) % n)
    assert same(through, came.reshape(3, 4))
    assert buffer.tobytes() == came.tobytes()
    shmem.barrier_all()
    shmem.free(x)


def has_torch():
    """Whether this PE takes part with tensors: two are enough, for its import takes seconds a PE."""
    return shmem.my_pe() < 2


def check_views(x):
    """Tensors of views are of the same memory, and so are arrays of these tensors."""
    for view in (lambda a: a, lambda a: a[1], lambda a: a[::2, 1:], lambda a: a[:, 3], lambda a: a.T, lambda a: a[:0]):
        tensor = interop.to_torch(view(x))
        assert str(tensor.dtype) == f"torch.{x.dtype.name}"
        assert tuple(tensor.shape) == view(x).shape
        assert tensor.data_ptr() == view(x).__array_interface__["data"][0] or not view(x).size
        back = interop.from_torch(tensor)
        assert back.dtype == x.dtype
        assert not back.size or shares(back, view(x))


@without_torch
@small
@pytest.mark.core
@pytest.mark.parametrize("dtype", [*KNOWN, *NEW], ids=dtype_id)
def test_tensors_share_memory_both_ways(dtype):
    n, me = shmem.n_pes(), shmem.my_pe()
    x, source = shmem.zeros((4, 6), dtype), payload(dtype, 24, me).reshape(4, 6)
    if has_torch():
        check_views(x)
        shmem.put(interop.from_torch(interop.to_torch(x)), interop.from_torch(interop.to_torch(source)), (me + 1) % n)
    else:
        shmem.put(x, source, (me + 1) % n)
    shmem.barrier_all()
    came = payload(dtype, 24, (me - 1) % n).reshape(4, 6)
    assert same(x, came)
    shmem.barrier_all()
    if has_torch():
        whole = interop.to_torch(x)
        assert same(interop.from_torch(whole.clone()), came)
        whole.zero_()
        assert x.tobytes() == bytes(x.nbytes)
    shmem.barrier_all()
    shmem.free(x)


@without_torch
@small
@pytest.mark.parametrize("dtype", [np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e5m2)], ids=dtype_id)
def test_numbers_are_the_same_in_both(dtype):
    """Not only the bits: a bfloat16 2.5 is one there, too, and one stored there is one here."""
    x = shmem.array(np.array([2.5, -0.25, 96.0, 0.0], dtype))
    if has_torch():
        tensor = interop.to_torch(x)
        assert tensor.float().tolist() == [2.5, -0.25, 96.0, 0.0]
        tensor[3] = 1.75
        assert x.astype(np.float32).tolist() == [2.5, -0.25, 96.0, 1.75]
    shmem.barrier_all()
    shmem.free(x)


@without_torch
@small
def test_dlpack_into_torch_shares_memory():
    x = shmem.zeros(5, np.float32)
    if has_torch():
        torch = importlib.import_module("torch")
        for tensor in (torch.from_dlpack(x), torch.from_numpy(x)):
            tensor += 1
        assert x.tolist() == [2] * 5
    shmem.barrier_all()
    shmem.free(x)


@without_torch
@small
@pytest.mark.parametrize("dtype", UNKNOWN, ids=str)
def test_dtypes_that_torch_lacks_are_refused(dtype):
    if not has_torch():
        return
    with pytest.raises(shmem.DtypeError, match="torch has no tensors"):
        interop.to_torch(np.zeros(3, dtype))


@without_torch
@small
def test_what_can_not_be_shared_is_refused():
    if not has_torch():
        return
    torch = importlib.import_module("torch")
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    for error, call in (
        (shmem.ArgumentError, lambda: interop.to_torch(frozen)),
        (shmem.LayoutError, lambda: interop.to_torch(np.zeros(3)[::-1])),
        (shmem.DtypeError, lambda: interop.to_torch([1.0])),
        (shmem.ArgumentError, lambda: interop.from_torch(torch.zeros(3, requires_grad=True))),
        (shmem.ArgumentError, lambda: interop.from_torch(torch.zeros(3, device="meta"))),
        (shmem.LayoutError, lambda: interop.to_torch(np.zeros(3, [("tag", "u1"), ("value", "f8")])["value"])),
        (shmem.LayoutError, lambda: interop.to_torch(np.zeros(3, [("tag", "u1"), ("value", NEW[0])])["value"])),
        (shmem.ArgumentError, lambda: interop.from_torch(torch.zeros((3, 3)).to_sparse())),
        (shmem.ArgumentError, lambda: interop.from_torch(torch.zeros((3, 3), dtype=torch.bfloat16).to_sparse())),
        (shmem.ArgumentError, lambda: interop.from_torch(torch.nested.nested_tensor([torch.zeros(2)]))),
        (shmem.ArgumentError, lambda: interop.from_torch(torch.zeros(3, dtype=torch.complex64).conj())),
        (shmem.ArgumentError, lambda: interop.from_torch(torch.zeros(3, dtype=torch.complex64).conj().imag)),
        (shmem.ArgumentError, lambda: interop.from_torch(torch._neg_view(torch.zeros(3, dtype=torch.bfloat16)))),
        (shmem.ArgumentError, lambda: interop.from_torch(torch._efficientzerotensor(3))),
        (shmem.DtypeError, lambda: interop.from_torch(np.zeros(3))),
        (shmem.DtypeError, lambda: interop.from_torch(torch.zeros(3, dtype=torch.complex32))),
    ):
        with pytest.raises(error):
            call()


WITHOUT_TORCH = """
import sys
import numpy as np
import shmem
from shmem import interop
assert "torch" not in sys.modules, "imported before it was used"
sys.modules["torch"] = None  # as if it were not installed
for call in (lambda: interop.to_torch(np.zeros(3)), lambda: interop.from_torch(np.zeros(3))):
    try:
        call()
    except ImportError as error:
        assert "shmemu[torch]" in str(error)
        assert "pip install '.[torch]'" in str(error)
    else:
        raise AssertionError("no ImportError")
print("fine")
"""
UNPICKLE = """
import pickle, sys
x = pickle.load(sys.stdin.buffer)
assert "shmem" not in sys.modules and "mpi4py" not in sys.modules
sys.stdout.buffer.write(pickle.dumps((x.shape, x.dtype.str, x.tolist(), x.flags.writeable, x.base is None)))
"""


def elsewhere(program: str, given: bytes = b"") -> bytes:
    """What a program prints in a process of its own, which has none of our memory."""
    done = subprocess.run([sys.executable, "-c", program], input=given, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.core
def test_torch_is_not_imported_unless_used():
    assert elsewhere(WITHOUT_TORCH).strip() == b"fine"


@pytest.mark.core
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_a_copy_for_any_process(protocol):
    x = shmem.array(np.arange(12.0).reshape(3, 4) + shmem.my_pe())
    sent = pickle.dumps(x[1:, ::2], protocol)
    shape, code, values, writeable, _ = pickle.loads(elsewhere(UNPICKLE, sent))
    assert (shape, code, writeable) == ((2, 2), x.dtype.str, True)
    assert values == (np.array([[4.0, 6.0], [8.0, 10.0]]) + shmem.my_pe()).tolist()
    back = pickle.loads(pickle.dumps(x, protocol))
    assert not np.shares_memory(back, x)
    assert not shmem.addr_accessible(back, shmem.my_pe())
    with pytest.raises(shmem.NotSymmetric):
        shmem.put(back, back, 0)
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
def test_a_pickle_carries_no_address(dtype):
    """The bytes are those of the same array in private memory, whose address is another."""
    given = payload(dtype, 7, 1)
    x = shmem.array(given)
    native = given if dtype.isnative else given.astype(dtype.newbyteorder("="))  # NumPy turns the others round
    assert same(pickle.loads(pickle.dumps(x)), native)
    assert pickle.dumps(x) == pickle.dumps(np.array(x))
    shmem.barrier_all()
    shmem.free(x)


def test_small_floats_are_all_thought_of():
    assert {dtype for dtype in SMALL_FLOATS if dtype in interop.SMALL} == set(NEW) & set(SMALL_FLOATS)
    assert set(interop.SMALL) == set(NEW)
