"""A job that goes on when its last PE is killed, with teams that were made before.

Argument: folder. Each survivor leaves a line for each step in `told.<pe>`.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np

import shmem

words = shmem.zeros(2, np.int64)
me, last = shmem.my_pe(), shmem.n_pes() - 1
living, backwards = shmem.team_from_pes(range(last)), shmem.TEAM_WORLD.split_strided(last, -1)
told = []


def ask(what, call):
    try:
        told.append(f"{what}: {call()}")
    except shmem.PeerDied as error:
        told.append(f"{what}: PeerDied {error.lost_pe} {error.pe}")


if me == last:
    shmem.wait_until(words[1:2], "==", last)
    os.kill(os.getpid(), signal.SIGKILL)
shmem.atomic_inc(words[1:2], last)
while not shmem.runtime.current().fabric.dead(look=True):  # now it is known, and no call has told of it
    pass
ask("the team of the living", living.sync)
ask("the team of all", backwards.sync)
ask("a split of it", backwards.split_strided)
for round_ in range(1, 51):
    for pe in range(living.n_pes()):
        shmem.atomic_inc(words[:1], pe)
    living.sync()
    assert words[0] == round_ * last, (words[0], round_)
    living.sync()
told.append(f"living: {words[0]}")
part = living.split_strided(last - 1, -1)
told.append(f"part: {part.pes}")
batch = shmem.Batch()
batch.barrier(team=part)
for _ in range(20):
    batch.run()
part.destroy()
ask("destroying the team of all", backwards.destroy)
living.destroy()
again = living.slot if living else None
told.append(f"gone: {again}")
(Path(sys.argv[1]) / f"told.{me}").write_text("\n".join(told))
