"""The saved token of each planted bug still shows it."""

from __future__ import annotations

import pytest

from shmem.check import tokens

from .planted_all import PLANTED
from .planted_tokens import RENEW, replayed, saved

SAVED = saved()


@pytest.mark.parametrize("name", PLANTED)
def test_the_saved_token_fails_as_it_did(name: str) -> None:
    assert name in SAVED, f"there is no token of {name} yet: {RENEW}"
    replayed(name, SAVED[name])


def test_there_are_no_others() -> None:
    assert set(SAVED) <= set(PLANTED), f"tokens of bugs that are gone: {RENEW}"


def test_a_bug_that_was_changed_says_how_to_renew_its_token() -> None:
    choices = tokens.decode(SAVED["missing_fence"])
    with pytest.raises(AssertionError, match=f"missing_fence or its profile has changed.*: {RENEW}"):
        replayed("missing_fence", tokens.encode("00000000", choices))


def test_a_token_that_shows_nothing_is_told() -> None:
    hashed = SAVED["missing_fence"].split(".")[1]
    with pytest.raises(AssertionError, match="missing_fence ends with no failure, not assertion"):
        replayed("missing_fence", tokens.encode(hashed, []))
