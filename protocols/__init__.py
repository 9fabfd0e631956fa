"""One-way channels over symmetric memory, written against the public API of `shmem` only.

Each protocol will say as data what it needs of the machine (atomic unit, order, reuse rule, flag wrap), and run
unchanged on every fabric that can give it that. The package has no protocols yet.
"""
