"""Work requests on queue pairs, doorbells and completions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ....delivery.queues import ENOUGH
from ....delivery.requests import Act, Event, Kind, Order, Update
from ..model import WORD, Impossible, Step
from ..syntax import STATUS_VALUES, Remote, Word
from .ordering import Ordering

if TYPE_CHECKING:
    from ..run import Run

ORDERS = {"none": Order.NONE, "relax": Order.RELAX, "strong": Order.STRONG}


class QueuePairs(Ordering):
    """What a queue pair takes."""

    # ---- queue pairs ----

    def _work(self, kind: Kind, remote: Remote, make: Callable[[Run], dict[str, Any]]) -> Iterator[Step]:
        """Posts a work request on the queue pair to a PE."""
        statement, pe, flags = self.statement, self.pe, self.statement.flags
        if remote.pe == pe and not self.profile.self_send:
            raise Impossible(f"profile {self.profile.name} refuses a request to the own PE")
        if kind is Kind.ATOMIC and self.profile.write_atomic == "none":
            raise Impossible(f"profile {self.profile.name} has no atomics in the adapter")
        name = ("qp", pe, remote.pe, flags.get("qp", 1))
        depth = int(self.test.settings.get("depth", ENOUGH))

        def post(run: Run) -> None:
            queue = run.machine.queue_pair(name, ("cq", pe, remote.pe), depth)
            status = "ok" if queue.room(1) else "full"
            if statement.into:
                run.registers[pe][statement.into] = STATUS_VALUES[status]
            more = make(run)
            if status == "full":
                if not statement.into:
                    raise Impossible(f"line {statement.line}: the queue is full")
                return
            request = self._request(
                run, kind, remote, ring=True, fence="fence" in flags, signaled="unsignaled" not in flags,
                order=next((ORDERS[name] for name in ORDERS if name in flags), Order.NONE),
                bad="rem_access" if "badkey" in flags else "", rung=False, **more,
            )  # fmt: skip
            request.queue = name
            run.machine.post(request)
            if "nodb" not in flags:
                queue.ring(run.machine.flight)

        yield self._step(post)

    def _write(self, **more: Any) -> Iterator[Step]:
        remote = self.statement.remote
        assert remote is not None
        late = "inline" not in self.statement.flags
        yield from self._source(remote, late)
        yield from self._work(Kind.WRITE, remote, lambda run: {**self._payload(run, remote, late), **more})

    def _write_imm(self) -> Iterator[Step]:
        return self._write(tells=True, needs_receive=True)

    def _write_notify(self) -> Iterator[Step]:
        remote, signal, update = self.statement.remote, self.statement.signal, self.statement.update
        assert remote is not None
        assert signal is not None
        assert update is not None
        late = "inline" not in self.statement.flags
        yield from self._source(remote, late)
        yield from self._loads(update.value, "signal")

        def make(run: Run) -> dict[str, Any]:
            word = {"word": self._target(signal), "word_update": Update("set", self._hidden(run, "signal"), 0, WORD)}
            return {**self._payload(run, remote, late), **word}

        yield from self._work(Kind.WRITE, remote, make)

    def _send(self) -> Iterator[Step]:
        pe = self.statement.pes[0]
        first = Word(next(iter(self.test.symmetric)), 0, 0)
        yield from self._work(Kind.SEND, Remote(first, pe), lambda run: {"tells": True, "needs_receive": True})

    def _read(self) -> Iterator[Step]:
        remote, result = self.statement.remote, self._own_word()
        assert remote is not None
        return self._work(Kind.READ, remote, lambda run: {"result": result})

    def _qp_atomic(self, op: str) -> Iterator[Step]:
        remote, operands = self.statement.remote, self.statement.values
        assert remote is not None
        for i, operand in enumerate(operands):
            yield from self._loads(operand, f"operand{i}")

        def make(run: Run) -> dict[str, Any]:
            given = [self._hidden(run, f"operand{i}") for i in range(len(operands))]
            return {"update": Update(op, given[-1], given[0] if op == "compare_swap" else 0, WORD)}

        yield from self._work(Kind.ATOMIC, remote, make)

    def _faa(self) -> Iterator[Step]:
        return self._qp_atomic("add")

    def _cas(self) -> Iterator[Step]:
        return self._qp_atomic("compare_swap")

    def _doorbell(self) -> Iterator[Step]:
        name = ("qp", self.pe, self.statement.pes[0], self.statement.count)

        def ring(run: Run) -> None:
            if name in run.machine.queue_pairs:
                run.machine.queue_pairs[name].ring(run.machine.flight)

        yield self._step(ring)

    def _poll_cq(self) -> Iterator[Step]:
        statement, pe = self.statement, self.pe
        name = ("cq", pe, statement.pes[0])

        def poll(run: Run) -> None:
            told = run.machine.completions[name]
            for each in told[: statement.count]:
                run.machine.queue_pairs[each.queue].poll(each.key)
                if statement.into:
                    run.registers[pe][statement.into] = STATUS_VALUES[each.status]
            del told[: statement.count]

        def retired(run: Run) -> list[object]:
            told = run.machine.completions.get(name, [])[: statement.count]
            return [Event(each.key, how, 0) for each in told for how in (Act.RETIRE, Act.UNTOLD)]

        yield self._step(poll, lambda run: len(run.machine.completions.get(name, ())) >= statement.count, needs=retired)

    def _poll_recv(self) -> Iterator[Step]:
        pe = self.pe
        yield self._step(
            lambda run: run.machine.received[pe].__delitem__(0),
            lambda run: bool(run.machine.received.get(pe)),
            needs=lambda run: [Event(each.key, Act.RECEIVE, 0) for each in run.machine.received.get(pe, [])[:1]],
        )
