"""Puts, gets, atomics and signals, on contexts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ....delivery.facts import completed
from ....delivery.requests import Event, Kind, Place, Request, Stage, Update
from ..model import WORD, Step
from ..syntax import Remote, Sum, Word
from .values import Values, nothing

if TYPE_CHECKING:
    from ..run import Run


class Transfers(Values):
    """What goes to another PE."""

    # ---- requests ----

    def _target(self, remote: Remote, count: int | None = None) -> Place:
        place = self.layout.place(remote.pe, remote.word, 1)
        assert place is not None
        return place

    def _request(self, run: Run, kind: Kind, remote: Remote, **more: Any) -> Request:
        return Request(
            run.machine.name(self.pe), kind, self.queue, remote.pe, self._target(remote), (),
            ascending=run.test.settings.get("units") == "ascending", **more,
        )  # fmt: skip

    def _source(self, remote: Remote, late: bool) -> Iterator[Step]:
        """Evaluates what is sent, unless it is read late."""
        source = self.statement.source
        assert source is not None
        if source.value is not None:
            yield from self._loads(source.value, "data")
        elif not late:
            place = self._buffer(remote)
            yield self._step(
                lambda run: run.loaded.__setitem__(self.pe, run.read(self.pe, place)),
                touches=self._load(place),
            )

    def _buffer(self, remote: Remote) -> Place:
        """The place of the source: as many bytes as the target has."""
        assert self.statement.source is not None
        assert self.statement.source.buffer is not None
        word = self.statement.source.buffer
        place = self.layout.place(self.pe, word, 1)
        assert place is not None
        return Place(place.space, place.lo, place.lo + (remote.word.hi - remote.word.lo) * WORD)

    def _payload(self, run: Run, remote: Remote, late: bool) -> dict[str, Any]:
        source = self.statement.source
        assert source is not None
        count = remote.word.hi - remote.word.lo
        if source.value is not None:
            return {"data": self._hidden(run, "data").to_bytes(WORD, "little") * count}
        if late:
            return {"source": self._buffer(remote)}
        return {"data": run.loaded.pop(self.pe)}

    def _completed(self, run: Run, target: int | None = None) -> list[Event]:
        """The events behind a quiet of a context, without the queue pairs."""
        return completed(run.machine, self.pe, self.queue, target)

    def _put_like(self, late: bool, signal: bool = False) -> Iterator[Step]:
        statement, pe = self.statement, self.pe
        remote = statement.remote
        assert remote is not None
        yield from self._source(remote, late)
        if signal:
            assert statement.update is not None
            yield from self._loads(statement.update.value, "signal")

        def post(run: Run) -> None:
            more = self._payload(run, remote, late)
            if signal:
                assert statement.signal is not None
                assert statement.update is not None
                update = Update(statement.update.op, self._hidden(run, "signal"), 0, WORD)
                more |= {"word": self._target(statement.signal), "word_update": update}
            run.machine.post(self._request(run, Kind.WRITE, remote, **more))

        yield self._step(post)
        if not late and self.profile.requests == "flag":
            # On such queues a blocking put is a nonblocking one and a quiet of its target.
            yield self._step(
                nothing,
                lambda run: not run.machine.pending(pe, self.queue, remote.pe),
                needs=lambda run: self._completed(run, remote.pe),
            )

    def _put(self) -> Iterator[Step]:
        return self._put_like(False)

    def _put_nbi(self) -> Iterator[Step]:
        return self._put_like(True)

    def _put_signal(self) -> Iterator[Step]:
        return self._put_like(False, True)

    def _put_signal_nbi(self) -> Iterator[Step]:
        return self._put_like(True, True)

    def _atomic(self, op: str, remote: Remote, operands: tuple[Sum, ...], **more: Any) -> Iterator[Step]:
        """Posts an atomic; what it brings, if anything, is the affair of the caller."""
        for i, operand in enumerate(operands):
            yield from self._loads(operand, f"operand{i}")

        def post(run: Run) -> None:
            given = [self._hidden(run, f"operand{i}") for i in range(len(operands))]
            cond = given[0] if op == "compare_swap" else 0
            update = Update(op, given[-1] if given else 0, cond, WORD)
            request = self._request(run, Kind.ATOMIC, remote, update=update, **more)
            run.machine.post(request)
            if more.get("keep"):
                run.waiting[self.pe] = request.key

        yield self._step(post)
        if self.profile.program_order and not more.get("keep"):
            yield self._step(
                nothing,
                lambda run: not run.machine.pending(self.pe, self.queue, remote.pe),
                needs=lambda run: self._completed(run, remote.pe),
            )

    def _answer(self, word: Word) -> Iterator[Step]:
        """Waits for the answer of the request just posted, and takes it."""
        pe = self.pe
        place = self.layout.place(pe, word, 1)

        def take(run: Run) -> None:
            self._put_value(run, word, int.from_bytes(run.machine.answers.pop(run.waiting.pop(pe)), "little"))

        yield self._step(
            take,
            lambda run: run.waiting[pe] in run.machine.answers,
            self._stores(word) if place else None,
            lambda run: list(run.machine.known[run.waiting[pe]].events(Stage.ANSWERED)),
        )

    def _fetching(self, op: str) -> Iterator[Step]:
        assert self.statement.remote is not None
        assert self.statement.word is not None
        yield from self._atomic(op, self.statement.remote, self.statement.values, keep=True)
        yield from self._answer(self.statement.word)
        yield from self._acquire()

    def _atomic_fetch(self) -> Iterator[Step]:
        return self._fetching("fetch")

    def _fetch_add(self) -> Iterator[Step]:
        return self._fetching("add")

    def _swap(self) -> Iterator[Step]:
        return self._fetching("swap")

    def _compare_swap(self) -> Iterator[Step]:
        return self._fetching("compare_swap")

    def _atomic_set(self) -> Iterator[Step]:
        assert self.statement.remote is not None
        return self._atomic("set", self.statement.remote, self.statement.values)

    def _atomic_add(self) -> Iterator[Step]:
        assert self.statement.remote is not None
        return self._atomic("add", self.statement.remote, self.statement.values)

    def _signal(self) -> Iterator[Step]:
        assert self.statement.remote is not None
        assert self.statement.update is not None
        return self._atomic(self.statement.update.op, self.statement.remote, (self.statement.update.value,))

    def _own_word(self) -> Place:
        assert self.statement.word is not None
        place = self.layout.place(self.pe, self.statement.word, 1)
        assert place is not None
        return place

    def _fetch_add_nbi(self) -> Iterator[Step]:
        assert self.statement.remote is not None
        return self._atomic("add", self.statement.remote, self.statement.values, result=self._own_word())

    def _get(self) -> Iterator[Step]:
        statement, pe = self.statement, self.pe
        remote, word = statement.remote, statement.word
        assert remote is not None
        assert word is not None

        def post(run: Run) -> None:
            request = self._request(run, Kind.READ, remote, keep=True)
            run.waiting[pe] = request.key
            run.machine.post(request)

        yield self._step(post)
        yield from self._answer(word)

    def _get_nbi(self) -> Iterator[Step]:
        remote, result = self.statement.remote, self._own_word()
        assert remote is not None
        yield self._step(lambda run: run.machine.post(self._request(run, Kind.READ, remote, result=result)))
