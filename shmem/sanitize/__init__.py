"""Race detection of real runs: what each PE did, written while it runs, and judged afterwards.

With `SHMEMU_SANITIZE=DIR` the fabric is one that records (`fabric`): arrays are of the tracked kind (`heap`), records
run under clocks that lie beside the words they change (`_native/clocks.c`), and each PE writes what it did, with the
time of its clock, to a stream of its own (`recorder`, `stream`). `shmemu race DIR` reads the streams (`reading`), makes
events of them (`decoding`), puts these into one order that the clocks allow, and has it judged by what judges
executions on `sim` (`judging`, `check.races`).
"""
