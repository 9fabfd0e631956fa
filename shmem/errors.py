"""Every exception that shmem, protocols and moe_ep raise: one tree, so that `except ShmemError` catches all.

A class derives from the builtin exception that a careful user would expect (and that shmem4py raises in
the same place) as well, carries what it has to say as attributes and not only as text, and survives pickling,
because ranks send their exceptions to the launcher. `python -m shmem.errors` prints docs/errors.md from here.
"""

from __future__ import annotations

import inspect
import textwrap
from functools import partial
from typing import Any


class ShmemError(Exception):
    """The root of all errors of this package. `pe` is the number of the PE that raised it, None where no PE
    is running yet (wrong environment variables) or where it does not matter.

        try:
            shmem.put(target, source, pe=1)
        except shmem.ShmemError as error:
            print(f"PE {error.pe}: {error}")
    """

    def __init__(self, message: str = "", *, pe: int | None = None) -> None:
        super().__init__(message)
        self.pe = pe

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:  # the default calls cls(*args), which lacks the keywords
        parameters = inspect.signature(type(self)).parameters.values()
        keywords = {p.name: vars(self)[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}
        return partial(type(self), *self.args, **keywords), (), vars(self)


class StateError(ShmemError):
    """The call is right but comes at the wrong time: before `init`, after `finalize`, or on an object that
    was destroyed. Arrays that outlive `finalize` stay readable; communication with them raises this.

        shmem.finalize()
        shmem.barrier_all()          # StateError: shmem was finalised
    """


class ArgumentError(ShmemError, ValueError):
    """An argument has a value that no call of this kind can take; the classes below say which kind of value.
    Raised before anything was sent, so the call may be repeated with a right argument.

        shmem.wait_until(flag, "=>", 1)      # ArgumentError: unknown comparison '=>'
    """


class InvalidPE(ArgumentError):
    """A PE number outside 0 .. n_pes() - 1. Negative numbers do not count from the end.

    shmem.p(word, 1, pe=shmem.n_pes())      # InvalidPE: PE 2 does not exist: the job has PEs 0 to 1
    """


class NotSymmetric(ArgumentError):
    """The target of a put, the source of a get or the word of an atomic does not lie in the symmetric heap:
    it was made by NumPy and not by an allocation of shmem, or an operation of NumPy made a private copy.

        shmem.put(numpy.zeros(4), source, pe=1)      # NotSymmetric; shmem.zeros(4) is right
    """


class SizeMismatch(ArgumentError):
    """The target is smaller than what would be written to it, `size` is larger than an array, or an atomic
    was given more than one element. Nothing is ever cut off silently.

        shmem.put(shmem.zeros(3), numpy.ones(4), pe=1)      # SizeMismatch: 4 elements into 3
    """


class LayoutError(ArgumentError):
    """A view whose elements lie in memory in a way the call cannot move. C-contiguous views, 1-D views with
    any step and row blocks of 2-D arrays work; copy the rest into a contiguous array first.

        shmem.put(target, matrix.T, pe=1)      # LayoutError; numpy.ascontiguousarray(matrix.T) is right
    """


class TeamError(ArgumentError, RuntimeError):
    """A team that is invalid or destroyed, that this PE is no member of, or that cannot be split as asked.

    shmem.TEAM_INVALID.my_pe()      # TeamError
    """


class ContextError(ArgumentError, RuntimeError):
    """A communication context that is invalid or destroyed, or could not be made.

    shmem.quiet(ctx=shmem.CTX_INVALID)      # ContextError
    """


class DtypeError(ArgumentError, TypeError):
    """A dtype the call cannot serve: target and source differ, an atomic on an integer that is not 32 or 64
    bits wide, bitwise operations on floats, Python objects. Two uint8 views move the bytes of anything.

        shmem.atomic_add(shmem.zeros(1, "int16"), 1, pe=0)      # DtypeError
    """


class FreedBlock(ArgumentError, KeyError):
    """Memory of the symmetric heap that is not allocated: freed already, or given to `free` as a view that
    begins inside a block. `free` looks only at where an array begins: a view of the first elements frees all.

        shmem.free(x[1:])      # FreedBlock: a view into a block
        shmem.free(x[:4])      # right: it begins where the block of x begins, and frees all of it
        shmem.free(x)          # FreedBlock: freed already
    """


class SymmetryError(ShmemError):
    """The PEs made different collective calls, or the same one with different sizes, dtypes or in another
    order. Raised on every PE, with `calls`, which maps each PE to the call it made. The check rides on the
    first synchronisation of the calls themselves; `SHMEMU_CHECK_SYMMETRY=0` turns it off.

        shmem.zeros(shmem.my_pe() + 1)      # SymmetryError: .calls == {0: 'zeros((1,), float64)', 1: ...}
    """

    def __init__(self, message: str, *, calls: dict[int, str], pe: int | None = None) -> None:
        super().__init__(message, pe=pe)
        self.calls = calls


class HeapExhausted(ShmemError, MemoryError):
    """The symmetric heap has no room for an allocation. Raised on every PE; the heap stays usable, and
    what was allocated stays valid. All in bytes: `asked`, `free` (all free memory) and `largest_free` (the
    largest piece of it: smaller than `free` when the heap is fragmented).

        shmem.init(heap_size="1M")
        shmem.zeros(10**6)      # HeapExhausted: .asked == 8000000; a larger SHMEMU_HEAP_SIZE helps
    """

    def __init__(self, message: str, *, asked: int, free: int, largest_free: int, pe: int | None = None) -> None:
        super().__init__(message, pe=pe)
        self.asked = asked
        self.free = free
        self.largest_free = largest_free


class ShmemTimeout(ShmemError, TimeoutError):
    """A wait passed its deadline (the call's `timeout=`, else `SHMEMU_TIMEOUT_S`). `awaited` says what should
    have happened and at which address, `seen` is the value found there at the end, `in_flight` what this PE
    had posted that was not complete, `waited_s` the seconds it waited.

        shmem.signal_wait_until(flag, "==", 1, timeout=0.5)
        # ShmemTimeout: .awaited == 'word == 1 at heap offset 0x0 of PE 0 (uint64)', .seen == 0, .waited_s >= 0.5
    """

    def __init__(
        self,
        message: str,
        *,
        awaited: str,
        seen: object,
        in_flight: object,
        waited_s: float,
        pe: int | None = None,
    ) -> None:
        super().__init__(message, pe=pe)
        self.awaited = awaited
        self.seen = seen
        self.in_flight = in_flight
        self.waited_s = waited_s


class PeerDied(ShmemError):
    """Another PE, `lost_pe`, is dead, and this call needs it. `how` says how, as far as is known; today
    it is always 'its process ended without finalize'. Only under `SHMEMU_ON_DEATH=survive`: otherwise a death
    ends the job.

        try:
            shmem.barrier_all()
        except shmem.PeerDied as error:
            go_on_without(error.lost_pe)
    """

    def __init__(self, message: str, *, lost_pe: int, how: str, pe: int | None = None) -> None:
        super().__init__(message, pe=pe)
        self.lost_pe = lost_pe
        self.how = how


class LockError(ShmemError):
    """A lock used against its rules: released by a PE that does not hold it, acquired twice by one PE, moved by
    `realloc` while it is held, or freed while a thread waits for it.

    shmem.clear_lock(lock)      # LockError: PE 0 does not hold the lock at heap offset 0x40
    """


class QueueError(ShmemError):
    """The root of what goes wrong with the queues of the emulated NIC.

    try:
        qp.post(request)
    except shmem.QueueError:
        qp.reset()
    """


class QueueFull(QueueError):
    """The send queue has no room for the request. Nothing was posted: poll completions, then post again.

    for request in requests:
        qp.post(request)      # QueueFull once `depth` blocks are outstanding
    """


class QueueStateError(QueueError):
    """The queue pair is in a state that forbids the call, as after a completion with an error: `reset` it.

    qp.post(request)      # QueueStateError: the queue pair is in ERROR
    """


class CompletionError(QueueError):
    """A work request failed. `pe` is the PE the request was for, `wr_id` the request as numbered by `post`,
    `status` the name of the completion's status.

        cq.wait()      # CompletionError: .wr_id == 7, .status == 'REMOTE_ACCESS_ERROR'
    """

    def __init__(self, message: str, *, wr_id: int, status: str, pe: int | None = None) -> None:
        super().__init__(message, pe=pe)
        self.wr_id = wr_id
        self.status = status


class CompletionQueueOverrun(QueueError):
    """More completions arrived than the completion queue holds; some are lost and the queue is broken. Poll
    more often or make it as deep as all send queues that feed it together.

        cq = nic.CompletionQueue(depth=4)      # too small for a queue pair of depth 64
    """


class ProtocolError(ShmemError):
    """The root of what the protocols of the package `protocols` report.

    try:
        channel.recv()
    except shmem.ProtocolError as error:
        print(error)
    """


class UnsafeProtocol(ProtocolError):
    """The fabric's delivery profile does not give what the protocol needs. `missing` names the requirements.
    `protocols.open(..., unsafe=True)` opens it all the same.

        protocols.open("put_flag", 0, 1, "u1", 64)      # UnsafeProtocol: .missing == ('write_then_flag',)
    """

    def __init__(self, message: str, *, missing: tuple[str, ...], pe: int | None = None) -> None:
        super().__init__(message, pe=pe)
        self.missing = missing


class ContractBroken(ProtocolError):
    """A user of a protocol broke its rules: sent a forbidden payload, more than was agreed, or received
    another length than was sent.

        channel.send(payload_with_a_sentinel_in_it)      # ContractBroken
    """


class EPError(ShmemError):
    """The root of what the expert-parallel layer `moe_ep` reports about its arguments and its use.

    try:
        received = buffer.dispatch(x, topk_idx, topk_weights)
    except shmem.EPError as error:
        print(error)
    """


class RoutingError(EPError):
    """A routing that is not one: an expert number out of range, shapes that do not agree, experts that cannot
    be divided evenly among the PEs.

        topk_idx = np.array([[99]])
        buffer.dispatch(x, topk_idx, topk_weights, num_experts=64)      # RoutingError: topk_idx[0, 0] is 99: ...
    """


class HandleError(EPError):
    """A handle that does not belong to the call: of another buffer, of another routing, or used up.

    other_buffer.combine(y, handle)      # HandleError
    """


class PendingOperation(EPError):
    """The buffer is still in use by an operation that was started and not waited for.

    buffer.dispatch(...)      # PendingOperation: combine was started and not finished
    """


class BufferTooSmall(EPError):
    """The buffer was made for fewer tokens, experts or a smaller hidden size than the call needs.

    buffer = moe_ep.EPBuffer(num_max_tokens_per_rank=128, hidden=64, num_topk=2)
    buffer.dispatch(x_of_256_rows, topk_idx, topk_weights, num_experts=64)      # BufferTooSmall
    """


class EventError(EPError, AssertionError):
    """An event used against its rules: one that a synchronous call returned has nothing to wait for.

    moe_ep.EventOverlap().current_stream_wait()      # EventError: this call was synchronous
    """


class CheckError(ShmemError):
    """The root of what the checker and its tools report about a program they cannot check.

    try:
        explore(main, n_pes=2)
    except shmem.CheckError as error:
        print(error)
    """


class NondeterministicProgram(CheckError):
    """The program did something else when run again under the same schedule: it looks at the clock, at an
    unseeded random generator or at the order of a set. An exploration of it would mean nothing.

        explore(lambda: random.random() < 0.5 and shmem.quiet(), n_pes=2)      # NondeterministicProgram
    """


class ReplayMismatch(CheckError):
    """A saved token does not fit the program: the program, its bounds or its profile changed since.

    shmemu check program.py --replay s1.0badf00d.AAEC      # ReplayMismatch
    """


class LitmusSyntaxError(CheckError):
    """A litmus file that cannot be read. `line` and `column` count from 1.

    shmemu litmus broken.litmus      # LitmusSyntaxError: .line == 3, .column == 9
    """

    def __init__(self, message: str, *, line: int, column: int, pe: int | None = None) -> None:
        super().__init__(message, pe=pe)
        self.line = line
        self.column = column


class AcceptError(CheckError):
    """What a program took for a message was not that message, or not all of it: by `check.accept`, or by `poll_lines`
    on `sim`. `kind` is "torn", "stale" or "clobber"; docs/check.md says which is which.

    shmem.check.accept(box, shmem.check.Tag(0, 7))      # AcceptError: .kind == "stale"
    """

    def __init__(self, message: str, *, kind: str, pe: int | None = None) -> None:
        super().__init__(message, pe=pe)
        self.kind = kind


class StateLimit(CheckError):
    """An exploration that had to be complete met a bound (states, steps, time, calls) before it was. `report` is what
    it had found by then: no failure.

    explore(main, n_pes=4, max_states=1000, complete=True)      # StateLimit: .report.states == 1001
    """

    def __init__(self, message: str, *, report: Any, pe: int | None = None) -> None:
        super().__init__(message, pe=pe)
        self.report = report


def all_errors() -> list[type[ShmemError]]:
    """Every class of this module in the order of definition, the root first."""
    found = [value for value in globals().values() if inspect.isclass(value)]
    return [cls for cls in found if issubclass(cls, ShmemError)]


__all__ = [
    "AcceptError", "ArgumentError", "BufferTooSmall", "CheckError", "CompletionError", "CompletionQueueOverrun",
    "ContextError", "ContractBroken", "DtypeError", "EPError", "EventError", "FreedBlock", "HandleError",
    "HeapExhausted", "InvalidPE", "LayoutError", "LitmusSyntaxError", "LockError", "NondeterministicProgram",
    "NotSymmetric", "PeerDied", "PendingOperation", "ProtocolError", "QueueError", "QueueFull", "QueueStateError",
    "ReplayMismatch", "RoutingError", "ShmemError", "ShmemTimeout", "SizeMismatch", "StateError", "StateLimit",
    "SymmetryError", "TeamError", "UnsafeProtocol",
]  # fmt: skip


def _section(cls: type[ShmemError]) -> str:
    bases = ", ".join(f"`{base.__name__}`" for base in cls.__bases__)
    own = [name for name in inspect.signature(cls).parameters if name not in ("message", "pe")]
    attributes = "".join(f", `.{name}`" for name in own)
    text, _, example = (inspect.getdoc(cls) or "").partition("\n\n")
    code = textwrap.indent(textwrap.dedent(example), "    ")  # getdoc dedents it when the text is one line
    return f"## {cls.__name__}\n\nBases: {bases}. Attributes: `.pe`{attributes}.\n\n{text}\n\n{code}\n"


def page() -> str:
    """docs/errors.md: a section a class, made of the docstrings above."""
    head = (
        "# Errors\n\nGenerated by `python -m shmem.errors`; do not edit. All are names of `shmem` and take "
        "their attributes as keyword arguments. Some belong to parts that are still to come (queue pairs, protocols, "
        "the checker) or to calls in the background (`PendingOperation`): those are not raised yet, and their "
        "examples do not run.\n"
    )
    return "\n".join([head, *(_section(cls) for cls in all_errors())])


if __name__ == "__main__":
    print(page(), end="")
