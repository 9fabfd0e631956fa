"""Answers to the exercise of lesson 9: see `answers`."""

from __future__ import annotations

WRONG: dict[str, list[str]] = {
    "polled once": [
        """
        for batch in range(3):
            rows[:, 0] = 2 * batch + 1, 2 * batch + 2
            offsets = 8 * (2 * batch + np.arange(2))
            qp.post_many(nic.WorkRequests(nic.WRITE, rows, remote, offset=offsets))
            cq.poll()
        """,
        """
        for batch in range(3):
            rows[:, 0] = 2 * batch + 1, 2 * batch + 2
            offsets = 8 * (2 * batch + np.arange(2))
            qp.post_many(nic.WorkRequests(nic.WRITE, rows, remote, offset=offsets))
            shmem.wait_until(answer, "==", batch + 1)
            cq.poll()
        """,
    ],
    "answer and no completion": [
        """
        for batch in range(3):
            rows[:, 0] = 2 * batch + 1, 2 * batch + 2
            offsets = 8 * (2 * batch + np.arange(2))
            qp.post_many(nic.WorkRequests(nic.WRITE, rows, remote, offset=offsets))
            shmem.wait_until(answer, "==", batch + 1)
        """
    ],
    "quiet and no completion": [
        """
        for batch in range(3):
            rows[:, 0] = 2 * batch + 1, 2 * batch + 2
            offsets = 8 * (2 * batch + np.arange(2))
            qp.post_many(nic.WorkRequests(nic.WRITE, rows, remote, offset=offsets))
            shmem.quiet()
        """
    ],
    "fence": [
        """
        for batch in range(3):
            rows[:, 0] = 2 * batch + 1, 2 * batch + 2
            offsets = 8 * (2 * batch + np.arange(2))
            qp.post_many(nic.WorkRequests(nic.WRITE, rows, remote, offset=offsets))
            shmem.fence()
        """,
        """
        for batch in range(3):
            rows[:, 0] = 2 * batch + 1, 2 * batch + 2
            offsets = 8 * (2 * batch + np.arange(2))
            if batch == 2:
                cq.wait(2)
            qp.post_many(nic.WorkRequests(nic.WRITE, rows, remote, offset=offsets))
            shmem.fence()
        """,
    ],
    "never signaled": [
        """
        for batch in range(3):
            rows[:, 0] = 2 * batch + 1, 2 * batch + 2
            offsets = 8 * (2 * batch + np.arange(2))
            qp.post_many(nic.WorkRequests(nic.WRITE, rows, remote, offset=offsets, signaled=False))
            cq.wait(1)
        """
    ],
    "waits for too many": [
        """
        for batch in range(3):
            rows[:, 0] = 2 * batch + 1, 2 * batch + 2
            offsets = 8 * (2 * batch + np.arange(2))
            qp.post_many(nic.WorkRequests(nic.WRITE, rows, remote, offset=offsets, signaled=[False, True]))
            cq.wait(2)
        """
    ],
    "answer under udma": [
        """
        for batch in range(3):
            rows[:, 0] = 2 * batch + 1, 2 * batch + 2
            offsets = 8 * (2 * batch + np.arange(2))
            qp.post_many(nic.WorkRequests(nic.WRITE, rows, remote, offset=offsets))
            shmem.wait_until(answer, "==", batch + 1)
            if batch == 1:
                cq.wait(2)
        """
    ],
    "two buffers": [
        """
        more = [rows, np.zeros((2, 1), np.uint64)]
        nic.register(more[1], "")
        for batch in range(3):
            mine = more[batch % 2]
            mine[:, 0] = 2 * batch + 1, 2 * batch + 2
            offsets = 8 * (2 * batch + np.arange(2))
            if batch == 2:
                cq.wait(2)
            qp.post_many(nic.WorkRequests(nic.WRITE, mine, remote, offset=offsets))
        """
    ],
    "first completion": [
        """
        for batch in range(3):
            rows[:, 0] = 2 * batch + 1, 2 * batch + 2
            offsets = 8 * (2 * batch + np.arange(2))
            qp.post_many(nic.WorkRequests(nic.WRITE, rows, remote, offset=offsets))
            cq.wait(1)
        """
    ],
    "room alone": [
        """
        for batch in range(3):
            rows[:, 0] = 2 * batch + 1, 2 * batch + 2
            offsets = 8 * (2 * batch + np.arange(2))
            if batch == 2:
                cq.wait(1)
            qp.post_many(nic.WorkRequests(nic.WRITE, rows, remote, offset=offsets, signaled=[False, True]))
        """
    ],
    "untouched": [
        """
        for batch in range(3):
            rows[:, 0] = 2 * batch + 1, 2 * batch + 2
            offsets = 8 * (2 * batch + np.arange(2))
            qp.post_many(nic.WorkRequests(nic.WRITE, rows, remote, offset=offsets), doorbell="each")
        cq.wait(6)
        """
    ],
    "stopped early": [
        """
        rows[:, 0] = 1, 2
        qp.post_many(nic.WorkRequests(nic.WRITE, rows, remote, offset=[0, 8]))
        cq.wait(2)
        """
    ],
}

RIGHT: list[str] = [
    """
    for batch in range(3):
        rows[:, 0] = 2 * batch + 1, 2 * batch + 2
        offsets = 8 * (2 * batch + np.arange(2))
        qp.post_many(nic.WorkRequests(nic.WRITE, rows, remote, offset=offsets, signaled=False), doorbell="each")
        qp.quiet()
    """,
    """
    for batch in range(3):
        rows[:, 0] = 2 * batch + 1, 2 * batch + 2
        offsets = 8 * (2 * batch + np.arange(2))
        qp.post_many(nic.WorkRequests(nic.WRITE, rows, remote, offset=offsets))
        shmem.quiet()
        cq.poll()
    """,
    """
    both = [rows, np.zeros((2, 1), np.uint64)]
    nic.register(both[1], "")
    for batch in range(3):
        mine = both[batch % 2]
        if batch == 2:
            cq.wait(1)  # of batch 0: its memory and its slots
        mine[:, 0] = 2 * batch + 1, 2 * batch + 2
        offsets = 8 * (2 * batch + np.arange(2))
        qp.post_many(nic.WorkRequests(nic.WRITE, mine, remote, offset=offsets, signaled=[False, True]))
    """,
]
