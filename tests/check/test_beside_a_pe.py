"""A process that is a PE itself may explore: what the C fronts do for it is not done for the PEs of `sim`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("shmem._native._hot")

PROGRAM = """
import numpy as np
import shmem
from shmem.check import explore

def main():
    words = shmem.zeros(3, np.int64)
    if shmem.my_pe() == 0:
        shmem.put_nbi(words[:1], np.ones(1, np.int64), 1)
        shmem.fence()
        shmem.put_nbi(words[1:2], np.ones(1, np.int64), 1)
        shmem.quiet()
        shmem.put(words[2:], np.ones(1, np.int64), 1)
        return None
    shmem.wait_until(words[2:], "==", 1)
    return words[:2].tolist()

def shows():
    word = shmem.zeros(1, np.int64)
    shmem.p(word, 5, 0)
    shmem.quiet()
    return int(word[0])

if __name__ == "__main__":
    shmem.init()
    print(sorted(explore(main, 2, "srd").outcomes), shows())
    shmem.finalize()
"""


def test_a_pe_may_explore(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text(PROGRAM)
    run = subprocess.run(
        [sys.executable, "beside.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (run.stdout.split("\n")[0], run.returncode) == ("[(None, (1, 1))] 5", 0), run.stderr
