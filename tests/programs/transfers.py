"""Two PEs, each with five puts, five signals and four WRITEs to the other: something to draw."""

import numpy as np

import shmem
from shmem import nic

shmem.init()
me = shmem.my_pe()
target, signal, source = shmem.zeros(64, np.int64), shmem.zeros(1, np.uint64), np.arange(64)
for i in range(5):
    shmem.put_nbi(target, source, 1 - me)
    shmem.put_signal(target[:4], source[:4], 1 - me, signal, i + 1, "set")
    shmem.signal_wait_until(signal, ">=", i + 1)
    shmem.quiet()
own = nic.register(target)
there = nic.import_segment(own, 1 - me)
cq = nic.CompletionQueue()
qp = nic.QueuePair(1 - me, cq)
for i in range(4):
    qp.post(nic.WorkRequest(nic.WRITE, local=target[:4], remote=there, signaled=i == 3))
cq.wait()
qp.quiet()
shmem.barrier_all()
shmem.free(target)
shmem.free(signal)
shmem.finalize()
