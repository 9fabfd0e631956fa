"""Queue pairs: work requests, rings, doorbells and completions, as an RDMA adapter has them.

    seg = nic.register(array)
    remote = nic.import_segment(seg, pe)
    cq = nic.CompletionQueue()
    qp = nic.QueuePair(pe, cq)
    qp.post(nic.WorkRequest(nic.WRITE, local=array, remote=remote))
    [completion] = cq.wait()

Terms are those of InfiniBand verbs; the URMA names and what differs are in `docs/queue-pairs.md`. `shmem.fence`,
`quiet` and barriers on the default context cover what was rung here, unless the profile's fences miss the queues.
"""

from __future__ import annotations

from .adapter import step as step
from .completion_queue import Completion as Completion
from .completion_queue import CompletionQueue as CompletionQueue
from .many import WorkRequests as WorkRequests
from .queue_pair import QueuePair as QueuePair
from .rings import CQE as CQE
from .rings import WQE as WQE
from .segments import Segment as Segment
from .segments import import_segment as import_segment
from .segments import register as register
from .work import Opcode as Opcode
from .work import WorkRequest as WorkRequest

NOP, WRITE, WRITE_IMM, WRITE_NOTIFY = Opcode.NOP, Opcode.WRITE, Opcode.WRITE_IMM, Opcode.WRITE_NOTIFY
READ, SEND, SEND_IMM, CAS, FAA = Opcode.READ, Opcode.SEND, Opcode.SEND_IMM, Opcode.CAS, Opcode.FAA
RECEIVE = Opcode.RECEIVE
