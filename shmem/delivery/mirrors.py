"""What Python sees of the queues of a native engine: objects of the same classes as the Python machine's, which follow
it. What a program does to a queue pair goes to the engine."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from .queues import QueueState
from .requests import Key, Request

if TYPE_CHECKING:
    from .native import NativeMachine


def _keys(pe: int, items: Any, n: int) -> list[Key]:
    return [(pe, items[i].number) for i in range(n)]


class NativeQueue(QueueState):
    """One queue pair of a native engine."""

    _machine: NativeMachine | None = None
    _patient = False
    _receives: Hashable = None

    def __init__(self, cq: Hashable, depth: int, number: int, pe: int, **more: Any) -> None:
        self.number, self.pe = number, pe
        super().__init__(cq, depth, **more)

    def bind(self, machine: NativeMachine) -> None:
        """Says whose it is."""
        self._machine = machine

    @property
    def patient(self) -> bool:
        """Whether it waits for a receive at the target for ever."""
        return self._patient

    @patient.setter
    def patient(self, value: bool) -> None:
        self._patient = value
        self._pair()

    @property
    def receives(self) -> Hashable:
        """Its receive queue, where that has buffers."""
        return self._receives

    @receives.setter
    def receives(self, value: Hashable) -> None:
        self._receives = value
        self._pair()

    def _pair(self) -> None:
        if self._machine is not None:
            self._machine.pair(self)

    def room(self, blocks: int) -> bool:
        """Whether so many blocks may be posted."""
        assert self._machine is not None
        return bool(self._machine.lib.sm_net_room(self._machine.net, self.number, blocks))

    def ring(self, flight: dict[Key, Request]) -> list[object]:
        """A doorbell: all that is posted is rung, at once or when it arrives. Returns what that made possible."""
        assert self._machine is not None
        silent, bells = list(self.silent), len(self.bells)
        self._machine.call("sm_net_ring", self.number)
        rung: list[object] = [("rung", key) for key in silent if key not in self.silent]
        return rung or [("bell", *bell) for bell in self.bells[bells:]]

    def poll(self, key: Key) -> None:
        """A completion was polled: gives back the blocks up to its request's."""
        assert self._machine is not None
        self._machine.call("sm_net_poll", self.number, key[1])

    def reset(self) -> None:
        """Back to the state READY, empty; what is posted on it and not retired is dropped."""
        assert self._machine is not None
        self._machine.call("sm_net_reset", self.number)

    def follow(self, view: Any) -> None:
        """Takes over what the engine has, a `sm_queue_view`."""
        pe = self.pe
        self.pi, self.ci = view.pi, view.ci
        self.waiting, self.silent = _keys(pe, view.waits, view.waiting), _keys(pe, view.silents, view.silent)
        self.held = [((pe, view.holds[i].number), view.holds[i].more) for i in range(view.held)]
        self.bells = [((pe, view.rings[i].number), view.rings[i].more) for i in range(view.bells)]
        self.doomed, self.failed, self.lost = bool(view.doomed), bool(view.failed), bool(view.lost)
        self.bells_rung = view.bells_rung
        self.asked = (-1, -1) if view.asked < 0 else (pe, view.asked)
        self.stopped = (pe, view.stopped) if view.has_stopped else None

    def copy(self) -> NativeQueue:
        """The same state, apart; it is not bound to a machine yet."""
        made = NativeQueue(self.cq, self.depth, self.number, self.pe, on_error=self.on_error, lossy=self.lossy)
        made._patient, made._receives = self._patient, self._receives
        for name in ("pi", "ci", "doomed", "failed", "lost", "bells_rung", "asked", "stopped"):
            setattr(made, name, getattr(self, name))
        made.waiting, made.held = list(self.waiting), list(self.held)
        made.silent, made.bells = list(self.silent), list(self.bells)
        return made
