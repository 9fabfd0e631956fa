"""The `sim` fabric: PEs are tasks of one process, and what is in flight between them is data that a search can see.

`tasks` runs a program's PEs up to what others could see of them, `fabric` turns the calls of `shmem` into such steps,
`records` interprets operation records over the delivery machine, `local` those that stay inside a PE.
"""

from .tasks import End, Job, Program, Step, Task, TaskKey, name_of

__all__ = ["End", "Job", "Program", "Step", "Task", "TaskKey", "name_of"]
