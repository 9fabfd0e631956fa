"""The C core: `_core` (cffi, declarations in core_api.h and net_api.h) and `_hot` (the C fronts of the hot calls)."""
