"""Answers to the exercises: for each lesson wrong ones by the hint they must get, and right ones beside the solution.

An answer is the body of `send`.
"""

from __future__ import annotations

import ast
import textwrap

from . import answers_batches

WRONG: dict[int, dict[str, list[str]]] = {
    1: {
        "no doorbell": [
            """
            for request in requests[:2]:
                qp.post(request)
            cq.wait(2)
            """,
            """
            for request in requests:
                qp.post(request)
            """,
        ],
        "doorbell before the post": [
            """
            for request in requests:
                if qp.positions[0] - qp.positions[1] == qp.depth:
                    cq.wait(1)
                qp.doorbell()
                qp.post(request)
            """
        ],
        "not taken": [
            """
            for request in requests:
                qp.post(request)
                qp.doorbell()
            """,
            """
            for request in requests:
                qp.post(request)
                qp.doorbell()
            cq.wait(4)
            """,
        ],
        "polled once": [
            """
            for request in requests:
                qp.post(request)
                qp.doorbell()
                cq.poll()
            """
        ],
        "waits for too many": [
            """
            for request in requests[:2]:
                qp.post(request)
            qp.doorbell()
            cq.wait(4)
            for request in requests[2:]:
                qp.post(request)
            qp.doorbell()
            """
        ],
    },
    2: {
        "waits for an unsignaled request": [
            """
            for i in range(4):
                word[0] = i + 1
                qp.post(nic.WorkRequest(nic.WRITE, word, remote, offset=8 * i, signaled=False))
                cq.wait(1)
            """
        ],
        "too late": [
            """
            for i in range(4):
                word[0] = i + 1
                qp.post(nic.WorkRequest(nic.WRITE, word, remote, offset=8 * i))
            cq.wait(4)
            """
        ],
        "polled once": [
            """
            for i in range(4):
                word[0] = i + 1
                qp.post(nic.WorkRequest(nic.WRITE, word, remote, offset=8 * i))
                cq.poll()
            """
        ],
        "two buffers": [
            """
            words = [word, np.zeros(1, np.uint64)]
            nic.register(words[1], "")
            for i in range(4):
                words[i % 2][0] = i + 1
                qp.post(nic.WorkRequest(nic.WRITE, words[i % 2], remote, offset=8 * i))
            """
        ],
        "untouched": [
            """
            for i in range(4):
                word[0] = i + 1
                qp.post(nic.WorkRequest(nic.WRITE, word, remote, offset=8 * i))
                shmem.fence()
            """
        ],
        "stopped early": [
            """
            word[0] = 1
            qp.post(nic.WorkRequest(nic.WRITE, word, remote, offset=0, inline=True))
            """
        ],
    },
    3: {
        "untouched": [
            """
            for i, request in enumerate(requests):
                request.signaled = i == 7
                qp.post(request)
            cq.wait(1)
            """
        ],
        "not taken": [
            """
            for i, request in enumerate(requests):
                request.signaled = i % 2 == 1
                qp.post(request)
            cq.wait(4)
            """
        ],
        "polled once": [
            """
            for i, request in enumerate(requests):
                request.signaled = i % 2 == 1
                qp.post(request)
                cq.poll()
            """
        ],
        "signals too seldom": [
            """
            for i, request in enumerate(requests):
                request.signaled = i == 1
                qp.post(request)
                if request.signaled:
                    cq.wait(1)
            """
        ],
        "waits for an unsignaled request": [
            """
            for i, request in enumerate(requests):
                request.signaled = i % 2 == 1
                qp.post(request)
                cq.wait(1)
            """
        ],
        "the last is not signaled": [
            """
            for i, request in enumerate(requests):
                request.signaled = i % 3 == 0
                qp.post(request)
                if request.signaled:
                    cq.wait(1)
            """
        ],
        "too many completions": [
            """
            for request in requests:
                qp.post(request)
                cq.wait(1)
            """
        ],
        "stopped early": [
            """
            for request in requests[:4]:
                qp.post(request)
            cq.wait(4)
            """
        ],
    },
    4: {
        "tells nobody": [
            """
            qp.post(nic.WorkRequest(nic.WRITE, data, box))
            cq.wait(1)
            """
        ],
        "READ before the WRITE": [
            """
            qp.post(nic.WorkRequest(nic.READ, back, box))
            qp.post(nic.WorkRequest(nic.WRITE, data, box))
            cq.wait(2)
            shmem.p(flag, 1, 1)
            """
        ],
        "READ not waited for": [
            """
            qp.post(nic.WorkRequest(nic.WRITE, data, box))
            qp.post(nic.WorkRequest(nic.READ, back, box))
            cq.wait(1)
            shmem.p(flag, 1, 1)
            """,
            """
            qp.post(nic.WorkRequest(nic.WRITE, data, box))
            qp.post(nic.WorkRequest(nic.READ, back, box, signaled=False))
            cq.poll()
            shmem.p(flag, 1, 1)
            """,
        ],
        "flag on the same queue pair": [
            """
            one = np.ones(1, np.uint64)
            qp.post(nic.WorkRequest(nic.WRITE, data, box))
            qp.post(nic.WorkRequest(nic.WRITE, one, word, inline=True))
            """,
            """
            one = np.ones(1, np.uint64)
            qp.post(nic.WorkRequest(nic.WRITE, data, box))
            cq.wait(1)
            qp.post(nic.WorkRequest(nic.WRITE, one, word, inline=True))
            """,
        ],
        "completion taken": [
            """
            qp.post(nic.WorkRequest(nic.WRITE, data, box))
            cq.wait(1)
            shmem.p(flag, 1, 1)
            """
        ],
    },
    8: {
        "the bad one again": [
            """
            left = list(requests)
            while left:
                posted = {qp.post(each): each for each in left}
                left = [posted[told.wr_id] for told in cq.wait(len(posted)) if not told.ok]
                if qp.state == "error":
                    qp.reset()
            return []
            """
        ],
        "no reset": [
            """
            bad, left = [], list(range(5))
            while left:
                posted = {qp.post(requests[i]): i for i in left}
                told = cq.wait(len(posted))
                bad += [posted[each.wr_id] for each in told if not each.ok and each.status != "flush"]
                left = [posted[each.wr_id] for each in told if each.status == "flush"]
            return bad
            """,
            """
            for request in requests:
                qp.post(request)
            told = cq.wait(5)
            bad = [each.wr_id for each in told if not each.ok and each.status != "flush"]
            for each in told:
                if each.status == "flush":
                    qp.post(requests[each.wr_id])
            return bad
            """,
        ],
        "reset too early": [
            """
            bad, done, left = [], 0, list(range(5))
            posted = {qp.post(requests[i]): i for i in left}
            while done + len(bad) < 5:
                [told] = cq.wait(1)
                if told.ok:
                    done += 1
                elif told.status != "flush":
                    bad.append(posted[told.wr_id])
                    qp.reset()
            return bad
            """
        ],
        "waits for a good end": [
            """
            for request in requests:
                qp.post(request)
            good = 0
            while good < 5:
                good += sum(told.ok for told in cq.wait(1))
            return []
            """
        ],
        "flush taken for bad": [
            """
            for request in requests:
                qp.post(request)
            return [told.wr_id for told in cq.wait(5) if not told.ok]
            """
        ],
        "not posted again": [
            """
            for request in requests:
                qp.post(request)
            return [told.wr_id for told in cq.wait(5) if told.status not in ("ok", "flush")]
            """
        ],
    },
    9: answers_batches.WRONG,
}

RIGHT: dict[int, list[str]] = {
    1: [
        """
        for i in (0, 2):
            qp.post(requests[i])
            qp.post(requests[i + 1])
            qp.doorbell()
            cq.wait(2)
        """
    ],
    2: [
        """
        for i in range(4):
            word[0] = i + 1
            qp.post(nic.WorkRequest(nic.WRITE, word, remote, offset=8 * i, inline=True, signaled=False))
        """,
        """
        for i in range(4):
            word[0] = i + 1
            qp.post(nic.WorkRequest(nic.WRITE, word, remote, offset=8 * i))
            shmem.quiet()
        """,
    ],
    3: [
        """
        for i, request in enumerate(requests):
            request.signaled = i in (3, 7)
            qp.post(request)
            if request.signaled:
                cq.wait(1)
        """
    ],
    4: [
        """
        qp.post(nic.WorkRequest(nic.WRITE, data, box))
        qp.quiet()
        shmem.p(flag, 1, 1)
        """,
        """
        qp.post(nic.WorkRequest(nic.WRITE_NOTIFY, data, box, notify=(word, 0, 1)))
        """,
        """
        qp.post(nic.WorkRequest(nic.WRITE, data, box))
        cq.wait(1)
        qp.post(nic.WorkRequest(nic.READ, back, box))
        cq.wait(1)
        shmem.p(flag, 1, 1)
        """,
    ],
    8: [
        """
        bad = []
        for i, request in enumerate(requests):
            qp.post(request)
            if not cq.wait(1)[0].ok:
                bad.append(i)
                qp.reset()
        return bad
        """
    ],
    9: answers_batches.RIGHT,
}

POLLS = """
    for request in requests:
        if qp.positions[0] - qp.positions[1] == qp.depth:
            while not cq.poll():
                pass
        qp.post(request)
        qp.doorbell()
    """  # right, of lesson 1, but for the checker a loop without an end


def filled(exercise: str, body: str) -> str:
    """The exercise with the body of an answer in its gap."""
    tree = ast.parse(exercise)
    [gap] = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == "send"]
    after = tree.body[tree.body.index(gap) + 1]
    lines = exercise.splitlines(keepends=True)
    inside = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    return "".join([*lines[: gap.body[0].end_lineno], inside, "\n\n\n", *lines[after.lineno - 1 :]])
