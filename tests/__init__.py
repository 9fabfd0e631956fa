"""The tests of shmem, protocols and moe_ep; `tests/mpi` holds those that run on several PEs."""
