"""The race detector: a stream of events in, pairs of accesses that nothing orders out.

`events` is the stream, which knows nothing of who wrote it; `clocks` is what one point of a program knows of others;
`rules` is the contract as tables; `judge` applies them to the events of one execution; `reasons` finds the edge that is
missing; `found` counts over executions.
"""
