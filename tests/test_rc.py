"""`shmem.rc`: what shmem4py's programs may set, and misspellings."""

from __future__ import annotations

import pytest

from shmem.rc import Rc


def test_defaults_and_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    rc = Rc()
    assert (rc.initialize, rc.threads, rc.thread_level, rc.finalize) == (True, False, "multiple", None)
    rc(initialize=False, thread_level="single")
    rc.finalize = True
    assert (rc.initialize, rc.threads, rc.thread_level, rc.finalize) == (False, False, "single", True)
    assert repr(rc) == "<shmem.rc>"
    monkeypatch.setenv("SHMEM4PY_RC_INITIALIZE", "off")
    monkeypatch.setenv("SHMEM4PY_RC_THREAD_LEVEL", "funneled")
    assert (Rc().initialize, Rc().thread_level) == (False, "funneled")


def test_another_name_raises() -> None:
    rc = Rc()
    with pytest.raises(TypeError, match="initialise"):
        rc.initialise = False
    with pytest.raises(TypeError, match="thread"):
        rc(threads=True, thread=True)
    assert rc.threads is False
