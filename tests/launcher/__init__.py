"""The resident job: how one `pytest` runs the tests marked `mpi` on several PEs.

`cells` says which (fabric, number of PEs) exist and which tests each takes, `plugin` is the pytest plugin
of the process that the user started, `job` starts one `mpiexec` a cell and feeds it with tests, `rank` is
what each PE of that job runs, `on_rank` is what holds around each test on a PE, `verdict` makes one result
out of N reports. `calls` notes on a PE which public functions of `shmem` ran, `coverage` asks at the end whether all
did.
"""
