"""Delivery profiles: what a network promises, as data.

A profile says how much of a request is placed at once, what is ordered with what, what a fence flag waits for, and what
a completion means. The names are those of the field: the weakest that OpenSHMEM 1.6 permits, reliable connected queue
pairs of InfiniBand verbs with and without relaxed ordering, URMA's queues, EFA's unordered datagrams, and an ordered
coherent machine. Nothing else of the model knows their names: `tables` turns the fields into rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from ..errors import ArgumentError

UNIT_MAX = 4096
CHOICES: Mapping[str, tuple[str, ...]] = {
    "units": ("any", "ascending"),
    "requests": ("any", "post", "flag", "program"),
    "queues": ("any", "program"),
    "write_atomic": ("any", "ordered", "may_pass", "none"),
    "receive_covers": ("own", "earlier", "all"),
    "completion": ("source_read", "acknowledged", "placed", "visible"),
    "reader": ("coherent", "lazy"),
    "on_error": ("error", "suspend", "go_on"),
    "stores": ("coherent", "delayed", "program"),
}
FENCED = frozenset({"read", "atomic", "write"})


@dataclass(frozen=True)
class Profile:
    """What a network promises. Raises ArgumentError for values that mean nothing."""

    name: str
    unit: int  # bytes placed whole, power of two 1..4096
    units: str  # order of the units of one request: "any" | "ascending"
    requests: str  # of one queue pair: "any" | "post" | "flag" | "program"
    queues: str  # between queue pairs: "any" | "program"
    write_atomic: str  # WRITE then ATOMIC: "any" | "ordered" | "may_pass" | "none"
    receive_covers: str  # what a receive completion covers: "own" | "earlier" | "all"
    fence_flag: frozenset[str]  # of {"read", "atomic", "write"}
    completion: str  # "source_read" | "acknowledged" | "placed" | "visible"
    flag_may_pass: bool  # whether a flag of its own may be seen before the data it is for
    # "lazy" (sim): placed and visible part. A plain load of a PE's own memory gives anything placed since the PE's last
    # acquire, but goes never back; waits and lines look at the memory itself, a test does as well.
    reader: str = "coherent"
    engine_scoped: bool = False  # fence, quiet and barriers do not reach the queue pairs
    # Each unit of a WRITE may be placed a second time, late, whatever came meanwhile: no flag, fence or completion
    # tells that this is over, but quiet and barriers do. Words that follow the data, and atomics, come once.
    repeat: bool = False
    # Acknowledgements on queue pairs may be lost. A WRITE or SEND is acknowledged once more and an atomic gives the
    # result kept, so nobody sees that; a READ is read again, in any order; and where the retries are used up a
    # request fails with `retry` though its target has it. Of those behind it, what was placed stays, no more comes.
    lost_ack: bool = False
    # One doorbell of each queue pair may be lost: what it was for waits for the next one.
    lost_doorbell: bool = False
    # What a failure does to the later requests of its queue pair: "error": they are flushed; "suspend": they stop where
    # they are; "go_on": nothing, and what had to wait for the failed one waits for its completion.
    on_error: str = "error"
    self_send: bool = True
    stores: str = "coherent"  # own stores to symmetric memory, as others see them: at once | any time later | in order
    # Puts of contexts that reach beyond one aligned piece of `stripe_bytes` are cut there, and the pieces travel on so
    # many queue pairs in turn; all else goes on the first. Between queue pairs nothing is ordered, so even where one
    # keeps its order a later flag may pass data; fence, quiet and the signal of a put_signal wait for all pieces.
    stripes: int = 1
    stripe_bytes: int = 4096  # a power of two, not below `unit`

    def __post_init__(self) -> None:
        if not 1 <= self.unit <= UNIT_MAX or self.unit & (self.unit - 1):
            raise ArgumentError(f"profile {self.name}: unit={self.unit} is no power of two from 1 to {UNIT_MAX}")
        for name, values in CHOICES.items():
            if getattr(self, name) not in values:
                raise ArgumentError(f"profile {self.name}: {name}={getattr(self, name)!r}: use one of {values}")
        if self.stripes < 1:
            raise ArgumentError(f"profile {self.name}: stripes={self.stripes}: at least 1")
        if self.stripe_bytes < self.unit or self.stripe_bytes & (self.stripe_bytes - 1):
            raise ArgumentError(
                f"profile {self.name}: stripe_bytes={self.stripe_bytes} is no power of two from unit={self.unit} up"
            )
        if not self.fence_flag <= FENCED:
            raise ArgumentError(f"profile {self.name}: fence_flag={set(self.fence_flag)} goes beyond {set(FENCED)}")

    @property
    def responder(self) -> bool:
        """Whether the target's adapter executes what comes on one queue pair in order (reliable connected ones)."""
        return self.write_atomic in ("ordered", "may_pass")

    @property
    def program_order(self) -> bool:
        """Whether all that a PE does takes effect in its program's order."""
        return self.requests == "program"


def _profiles() -> dict[str, Profile]:
    read_atomic, none = frozenset({"read", "atomic"}), frozenset[str]()
    openshmem = Profile("openshmem", 1, "any", "any", "any", "any", "own", none, "visible", True, stores="delayed")
    strict = Profile("rc_strict", 8, "any", "post", "any", "ordered", "earlier", read_atomic, "acknowledged", False)
    relaxed = replace(strict, name="rc_relaxed", requests="any", write_atomic="may_pass", flag_may_pass=True)
    udma = Profile("udma", 8, "any", "flag", "any", "any", "own", read_atomic, "placed", True, self_send=False)
    scoped = replace(udma, name="udma_engine_scoped", engine_scoped=True)
    srd = Profile("srd", 8, "any", "any", "any", "none", "own", none, "acknowledged", True)
    tso = Profile(
        "tso", 8, "ascending", "program", "program", "ordered", "all", none, "visible", False, stores="program"
    )
    return {each.name: each for each in (openshmem, strict, relaxed, udma, scoped, srd, tso)}


NAMED: Mapping[str, Profile] = _profiles()


def profile(which: str | Profile | None) -> Profile:
    """A profile by its name (None: `openshmem`), or the one given. Raises ArgumentError for an unknown name."""
    if isinstance(which, Profile):
        return which
    try:
        return NAMED["openshmem" if which is None else which]
    except (KeyError, TypeError):
        raise ArgumentError(f"there is no profile {which!r}: there are {', '.join(NAMED)}") from None


def varied(base: str | Profile, **changes: object) -> Profile:
    """A profile with other values in some fields, whose name says which. Raises ArgumentError."""
    origin = profile(base)
    known = {each.name for each in fields(Profile)}
    if unknown := set(changes) - known:
        raise ArgumentError(f"a profile has no {', '.join(sorted(unknown))}")
    told = ",".join(f"{key}={value}" for key, value in changes.items())
    return replace(origin, **{"name": f"{origin.name}({told})", **changes})  # type: ignore[arg-type]
