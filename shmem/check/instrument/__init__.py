"""The instrumented import: a program's own file, changed so that its lines tell what they do to private arrays.

`transform` changes the syntax tree; what it puts in are calls of `hooks`, which tell the race detector of loads and
stores, by `readers` also of those of well-known calls. `loaders` imports a module that way, on top of pytest's own
rewriting of assertions; `asked` is who wants it. Nothing of this is imported unless races are judged.
"""
