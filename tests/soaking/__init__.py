"""Random legal programs and the sequential model that they are compared with (`tests/soak.py`).

`plan` draws the steps, `model` says what they do to memory (NumPy and nothing of `shmem`), `play` does them with
`shmem`, `plants` puts a fault in on request.
"""
