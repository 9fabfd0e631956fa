"""Which edge is missing between two accesses, in words."""

from __future__ import annotations

from dataclasses import dataclass

from ...fabric.events import NO_CONTEXT, Kind, Task, pe_of
from .accesses import Made, Race, unlike
from .clocks import Clock
from .history import Landings
from .operations import DEFAULT

AFTER = "the wait that would order them comes after the access"
POLLED = "polled by plain loads, which order nothing"


@dataclass(frozen=True)
class _Ordered:
    """A fence or completion of a task."""

    clock: Clock
    ctx: int
    how: str  # "fence" or the name of a level
    target: int | None


class Reasons:
    """What orders operations in one execution, and which races may still turn out to be ordered too late."""

    def __init__(self) -> None:
        self._ordered: dict[Task, list[_Ordered]] = {}
        self._open: list[tuple[Race, Made, Made]] = []  # with the access of the task that may wait, and the other
        self._polled: dict[Task, dict[Task, int]] = {}  # the last operation of another that a task saw by plain loads

    # ---- what happens ----

    def note(self, made: Made, landings: Landings) -> None:
        """An access: a plain load may see what it should wait for."""
        if made.kind is Kind.LOAD and made.over == "step" and made.at.space == pe_of(made.task):
            seen = self._polled.setdefault(made.task, {})
            for effect in landings.at(made.at):
                seen[effect.task] = max(seen.get(effect.task, 0), effect.point)

    def ordered(self, clock: Clock, ctx: int, how: str, target: int | None) -> None:
        """A fence or completion."""
        self._ordered.setdefault(clock.task, []).append(_Ordered(clock, ctx, how, target))

    def forget(self, task: Task) -> None:
        """The last fence was none of the program's."""
        self._ordered[task].pop()

    def open(self, race: Race) -> None:
        """A race."""
        self._open += [(race, race.second, race.first), (race, race.first, race.second)]

    def learned(self, clock: Clock, lenient: bool) -> None:
        """A task has waited: what it does from here on may be ordered where its access before was not."""
        for race, mine, its in self._open:
            if mine.task == clock.task and its.before(clock, lenient) and not unlike(mine, its):
                race.why = AFTER
        self._open = [each for each in self._open if each[0].why != AFTER]

    def close(self, task: Task) -> None:
        """A task comes to a barrier: what it learns there is no wait that came too late."""
        self._open = [each for each in self._open if each[1].task != task]

    # ---- why ----

    def why(self, first: Made, second: Made) -> str:
        """The missing edge."""
        if text := unlike(first, second):
            return text
        if second.clock.steps(first.task) < first.point:
            return self._apart(first, second)
        if first.over == "store":
            return "no fence or quiet after the store"
        if first.ctx < NO_CONTEXT:
            return self._on_pair(first, second)
        upto = second.clock.steps(first.task)
        done = self._ordered.get(first.task, [])
        between = [each for each in done if first.point < each.clock.point <= upto and each.ctx >= 0]
        same = [each for each in between if each.ctx == first.ctx]
        if not same and between:
            how = "fence" if between[-1].how == "fence" else "quiet"
            return f"different context: the {how} between is of context {between[-1].ctx}, not {first.ctx}"
        if any(each.target not in (None, first.target) for each in same):
            return "the quiet between is of another PE"
        return self._incomplete(first, second, any(each.how == "fence" for each in same))

    def _apart(self, first: Made, second: Made) -> str:
        if self._polled.get(second.task, {}).get(first.task, 0) >= first.point:
            return POLLED
        one, other = sorted((_name(first.task), _name(second.task)))
        return f"no synchronization between {one} and {other}"

    @staticmethod
    def _on_pair(first: Made, second: Made) -> str:
        """First went through a queue pair, and is not known to be over."""
        if first.part == "at" and ("source", first.id) in second.clock.seen:
            return "its completion tells only that its source was read: no quiet between"
        if first.part == "at" and first.ctx == second.ctx:
            return "nothing orders the two on their queue pair"
        return "no completion of it and no quiet between"

    @staticmethod
    def _incomplete(first: Made, second: Made, fenced: bool) -> str:
        """First was posted before, and is not known to be over."""
        if first.over in ("source", "result"):
            if not fenced:
                return "no quiet between"
            does = "free sources" if first.over == "source" else "cover gets" if first.part == "at" else "bring results"
            return f"fence does not {does}: no quiet between"
        posts = second.kind in (Kind.PUT, Kind.UPDATE, Kind.FETCH, Kind.PUT_LINE) and second.over != "step"
        if pe_of(first.task) == pe_of(second.task):
            if posts and (second.ctx == first.ctx or (first.ctx == DEFAULT and second.ctx < NO_CONTEXT)):
                return "no fence or quiet between"
            return "a fence orders no gets and loads: no quiet between" if fenced else "no quiet between"
        if fenced:
            return "a fence orders only what goes to the same PE on the same context: no quiet between"
        return "no fence or quiet between"


def _name(task: Task) -> str:
    return f"PE {task[0]} worker {task[1]}" if isinstance(task, tuple) else f"PE {task}"
