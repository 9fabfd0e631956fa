"""Arrays whose every access is seen: the symmetric arrays of a program that is being checked.

A tracked array has the shape, dtype, strides and address of a view of a buffer that holds nothing but poison. The true
bytes live in a model, which a `Watch` stands for: each load and each store of the program is one call of it with the
ranges of bytes concerned.

Why it is no subclass of ndarray: NumPy's C code takes the buffer of any subclass without asking. `plain[:] = x`,
`plain[x]`, `plain.dot(x)`, `np.asarray(x)`, `torch.from_numpy(x)` would all take the poison for values, and no hook
could help. A class of its own that says `isinstance(x, np.ndarray)` (as mocks do, by `__class__`) but has no buffer is
asked by all of them for its values (`__array__`), or refused. So nothing a program can do reads poison.

What differs from an ndarray, so that no access is lost:

- Where NumPy would hand out the memory itself and this can't (`np.asarray(x)`), it is a copy that is read-only: whoever
  writes to it fails, like `Generator.permutation(x)`, which shuffles what it has converted; give it `x.copy()`.
  (Before version 2.5 NumPy forgets that in `np.add.at(np.asarray(x), ...)`; `np.add.at(x, ...)` is right.)
- `memoryview(x)`, `np.frombuffer(x)`, `x.ctypes`, `x.data`, DLPack and `np.array(x, copy=False)` are refused, and so is
  `x.resize`; `x.base` is None. An element of a structured array is a read-only copy.
- Methods and functions load all of the arrays they are given; views, indices and iteration just their elements.
- `type(x)` is not ndarray, and C extensions that insist on one refuse it, `torch.from_numpy` for one.
- Before Python 3.12 `bytearray(x)` takes the elements for bytes, as of a list: write `bytearray(x.tobytes())`.
- `Generator.shuffle` of two dimensions warns, and then mixes rows up: write `x[...] = generator.permutation(x.copy())`.
"""

from __future__ import annotations

from . import methods  # noqa: F401 - completes Tracked
from .access import Watch, unseen
from .array import Tracked, track

__all__ = ["Tracked", "Watch", "track", "unseen"]
