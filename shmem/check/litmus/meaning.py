"""What the grammar of litmus files can't tell: names that exist, places within bounds, values that mean something."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from lark import Token, Tree

from ...delivery.profiles import UNIT_MAX
from .syntax import Statement, Test, Word

SETTINGS = ("depth", "placement", "units", "recvs")
UNITS = ("any", "ascending")
WAITS = ("wait", "signal_wait", "poll", "poll_line")
LATE = ("get_nbi", "fetch_add_nbi", "read")  # their result comes when the statement is over
SEVERAL = ("put", "put_nbi", "put_signal", "put_signal_nbi", "write", "write_imm", "write_notify", "read")
GROUPS = ("barrier", "sync")
OPPOSED = (("relax", "strong"), ("signaled", "unsignaled"))
SYMMETRIC_MAX = 1 << 16  # words of all names together: each state of a search holds them
PES_MAX = 64


class Wrong(Exception):
    """A text that the grammar accepts and that means nothing."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line, self.column = line, column


def check_setting(settings: Mapping[str, int | str], at: Token) -> None:
    """Raises Wrong if the value of the last setting, which stands at `at`, means nothing."""
    name, value = list(settings.items())[-1]
    if name == "units":
        right, says = value in UNITS, f"use {' or '.join(UNITS)}"
    elif name == "placement":
        right = isinstance(value, int) and 1 <= value <= UNIT_MAX and not value & (value - 1)
        says = f"a power of two from 1 to {UNIT_MAX}"
    else:
        least = int(name == "depth")
        right, says = isinstance(value, int) and value >= least, f"a number from {least} up"
    if not right:
        raise Wrong(f"{name}={value}: {says}", at.line or 0, at.column or 0)


def check_final(tree: Tree[Any], symmetric: Mapping[str, tuple[int, int]]) -> None:
    """Raises Wrong if an outcome asks for final memory that there is not, or for several words at once."""
    for final in tree.find_data("final"):
        word = cast("Word", final.children[0])
        wrong = partial(Wrong, line=final.meta.line, column=final.meta.column)
        _check_word(symmetric, word, wrong)
        _check_one(symmetric, word, wrong)


def check(test: Test) -> None:
    """Raises Wrong for names that do not exist, indices out of bounds, operations that make no sense on them."""
    for pe, statements in test.programs.items():
        for each in statements:
            wrong = partial(Wrong, line=each.line, column=each.column)
            _check_statement(test, each, wrong)
            _check_sizes(test, each, wrong)
            _check_places(test, pe, each, wrong)
        _check_locks(pe, statements)
    if test.pes > PES_MAX or sum(count for count, _ in test.symmetric.values()) > SYMMETRIC_MAX:
        raise Wrong(f"at most {PES_MAX} PEs and {SYMMETRIC_MAX} symmetric words", test.line, 1)


def _check_statement(test: Test, each: Statement, wrong: Callable[[str], Exception]) -> None:
    for remote in (each.remote, each.signal):
        if remote is not None and each.verb != "send":
            _check_word(test.symmetric, remote.word, wrong)
    sent = each.source.buffer if each.source is not None else None
    words = [word for word in (each.word, sent) if word is not None]
    words += [word for value in each.values for word in value.words]
    for word in words:
        _check_word({word.name: (1, 0), **test.private, **test.symmetric}, word, wrong)
    if sent is not None and each.remote is not None:
        n = each.remote.word.hi - each.remote.word.lo
        _check_word({sent.name: (n, 0), **test.private, **test.symmetric}, Word(sent.name, sent.lo, sent.lo + n), wrong)
    if each.verb in ("lock", "unlock") and each.name not in test.symmetric:
        raise wrong(f"{each.name} is no symmetric word")
    if each.verb in WAITS and each.word is not None and each.word.name not in test.symmetric:
        raise wrong(f"{each.word.name} is no symmetric word")
    if each.verb == "poll_cq" and each.count < 1:
        raise wrong("poll_cq waits for one completion at least")


def _check_sizes(test: Test, each: Statement, wrong: Callable[[str], Exception]) -> None:
    """What moves or holds one word names one; puts, writes and reads may name a slice, but no array as a whole."""
    known = {**test.private, **test.symmetric}
    words = [word for value in each.values for word in value.words]
    if each.source is not None and each.source.value is not None:
        words += each.source.value.words
    if each.update is not None:
        words += each.update.value.words
    words += [each.word] if each.word is not None else []
    if each.verb != "send":
        words += [remote.word for remote in (each.remote, each.signal) if remote is not None]
    slices = [each.remote.word] if each.remote is not None and each.verb in SEVERAL else []
    if each.verb == "read" and each.word is not None and each.remote is not None:
        slices.append(each.word)
        if each.word.hi - each.word.lo != each.remote.word.hi - each.remote.word.lo:
            raise wrong("a read fills as many words as it reads")
    for word in words:
        if word in slices and not word.whole:
            continue
        _check_one(known, word, wrong)


def _check_places(test: Test, pe: int, each: Statement, wrong: Callable[[str], Exception]) -> None:
    """Where results and sources lie, and who takes part."""
    buffer = each.source.buffer if each.source is not None else None
    if buffer is not None and buffer.name not in test.private and buffer.name not in test.symmetric:
        raise wrong(f"{buffer.name} is a register: what is sent lies in memory, declare it with local or init")
    if each.verb in LATE and each.word is not None and each.word.name not in test.private:
        raise wrong(f"{each.word.name} takes a late result: declare it with local")
    if each.into in test.symmetric:
        raise wrong(f"-> {each.into}: the result goes to a register, and {each.into} is symmetric memory")
    if each.remote is not None and each.signal is not None and each.remote.pe != each.signal.pe:
        raise wrong(f"the data goes to PE {each.remote.pe}, so its signal does")
    if each.verb == "write_notify" and each.update is not None and each.update.op != "set":
        raise wrong("a notification sets its word")
    if each.verb == "send" and not test.symmetric:
        raise wrong("a SEND needs memory at its target: declare a word with init")
    for one, other in OPPOSED:
        if one in each.flags and other in each.flags:
            raise wrong(f"a request is {one} or {other}, not both")
    if each.verb in GROUPS and (pe not in each.pes or len(set(each.pes)) < len(each.pes)):
        raise wrong(f"P{pe} calls {each.verb} of a team: name each of its PEs once, and P{pe}")


def _check_locks(pe: int, statements: Sequence[Statement]) -> None:
    """A PE unlocks what it has locked: the standard says nothing of anything else."""
    held: set[str] = set()
    for each in statements:
        if each.verb == "lock":
            held.add(each.name)
        elif each.verb == "unlock":
            if each.name not in held:
                raise Wrong(f"unlock {each.name}: P{pe} does not hold it", each.line, each.column)
            held.remove(each.name)


def _check_one(known: Mapping[str, tuple[int, int]], word: Word, wrong: Callable[[str], Exception]) -> None:
    if word.hi - word.lo > 1 or (word.whole and known.get(word.name, (1, 0))[0] > 1):
        raise wrong(f"{word.name} are several words: say which, as {word.name}[0]")


def _check_word(known: Mapping[str, tuple[int, int]], word: Word, wrong: Callable[[str], Exception]) -> None:
    if word.name not in known:
        raise wrong(f"{word.name} is no symmetric word: declare it with init")
    if word.hi > known[word.name][0]:
        raise wrong(f"{word.name}[{word.lo}:{word.hi}] is outside {word.name}[{known[word.name][0]}]")
