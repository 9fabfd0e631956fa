"""Many work requests of one kind, from arrays: what the threads of a kernel post together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import ArgumentError
from ..plain import truth
from ..views import Array, address_of, check_array
from .rings import HEAD, PIECES
from .work import LENGTH_MAX, ORDERS, Opcode, WorkRequest

if TYPE_CHECKING:
    from .segments import Segment

OPCODES = (Opcode.WRITE, Opcode.READ)


@dataclass
class WorkRequests:
    """N work requests to post with one call. Nothing is checked or read before `QueuePair.post_many`.

    opcode: nic.WRITE or nic.READ. local: C-contiguous array [N, ...], of which row i is the local memory of request i;
        in the symmetric heap or in a registered segment.
    remote: the imported segment. offset: of the first byte in it, for all requests or an array [N].
    signaled: for all, or an array [N] of bool. fence, order: as of a `WorkRequest`.
    """

    opcode: Opcode
    local: npt.NDArray[Any]
    remote: Segment
    offset: int | npt.ArrayLike = 0
    signaled: bool | npt.ArrayLike = True
    fence: bool = False
    order: str = "none"

    def check(self, me: int) -> Array:
        """Its local memory. Raises ArgumentError, DtypeError."""
        array = check_array(self.local, "local", me)
        if self.opcode not in OPCODES:
            raise ArgumentError(f"{self.opcode!r}: many at once are WRITEs or READs", pe=me)
        if array.ndim < 1 or not array.flags.c_contiguous or not array.size:
            raise ArgumentError("local of many requests is a C-contiguous array [N, ...] with elements", pe=me)
        if self.opcode is Opcode.READ and not array.flags.writeable:
            raise ArgumentError("the result goes to local, which is read-only", pe=me)
        if array.nbytes // len(array) > LENGTH_MAX:
            raise ArgumentError(f"{array.nbytes // len(array)} bytes in one request, {LENGTH_MAX} fit", pe=me)
        if self.order not in ORDERS:
            raise ArgumentError(f"order={self.order!r}: use one of {ORDERS}", pe=me)
        truth(self.fence, "fence", me)
        return array

    def _column(self, name: str, kind: str, n: int, me: int) -> npt.NDArray[Any]:
        """A field that is one value or an array of them. Raises ArgumentError."""
        given = np.asarray(getattr(self, name))
        if given.dtype.kind not in kind or given.shape not in ((), (n,)):
            raise ArgumentError(f"{name}={given!r}: one value for all, or {n} of them, are needed", pe=me)
        return given

    def heads(self, me: int, local_fault: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The requests as an adapter takes them: `rings.HEAD` [N], `rings.PIECES` [N]. local_fault: what they are bound
        to fail with, 0 for nothing."""
        array = self.check(me)
        n, nbytes = len(array), array.nbytes // len(array)
        heads, pieces = np.zeros(n, HEAD), np.zeros(n, PIECES)
        heads["opcode"], heads["blocks"], heads["pieces"], heads["remote"] = self.opcode, 1, 1, True
        heads["signaled"], heads["fence"] = self._column("signaled", "b", n, me), self.fence
        heads["order"], heads["nbytes"], heads["bad"] = ORDERS.index(self.order), nbytes, local_fault
        heads["key"], heads["offset"] = self.remote.key & 0xFFFFFFFF, self._column("offset", "iu", n, me)
        pieces["address"] = address_of(array) + nbytes * np.arange(n, dtype=np.uint64)
        pieces["nbytes"] = nbytes
        return heads, pieces

    def one_by_one(self, me: int) -> Iterator[WorkRequest]:
        """The same as single work requests."""
        array = self.check(me)
        n = len(array)
        offsets = np.broadcast_to(self._column("offset", "iu", n, me), n)
        signaled = np.broadcast_to(self._column("signaled", "b", n, me), n)
        for i in range(n):
            yield WorkRequest(
                self.opcode, local=array[i : i + 1], remote=self.remote, offset=int(offsets[i]),
                signaled=bool(signaled[i]), fence=self.fence, order=self.order,
            )  # fmt: skip
