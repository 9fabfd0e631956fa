"""How the C core is built: two extension modules from the C files of this folder.

`_core` is cffi's (API mode, declarations in the headers named *_api.h); `_hot` is hot.c, the thin front of
the hot calls in CPython's C API, with the same C files behind it. setup.py runs this file, from the folder it is in
itself. `python shmem/_native/build.py` only says what this machine lacks for the build: one sentence, exit
code 1. Needs nothing but the standard library until `ffibuilder` is called.
"""

from __future__ import annotations

import glob
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from typing import Any

FOLDER = os.path.dirname(__file__)  # relative in setup.py: setuptools refuses absolute sources
DECLARATIONS = [os.path.join(FOLDER, name) for name in ("core_api.h", "net_api.h", "ring_api.h", "nic_api.h")]
HOT = os.path.join(FOLDER, "hot.c")
MACHINES = ("x86_64", "aarch64")
# Both modules are abi3 from Python 3.10 on, and so is the wheel; hot.c says the same value.
LIMITED_API = "0x030A0000"
LIMITED_TAG = "cp310"
DEBIAN = "install what is missing (Debian: apt-get install"

_PROBE = "#include <Python.h>\n#include <stdatomic.h>\n#include <stdio.h>\nint main(void) { return 0; }\n"


def sources() -> list[str]:
    """Every C file but the C-API front."""
    return sorted(set(glob.glob(os.path.join(FOLDER, "*.c"))) - {HOT})


def headers() -> list[str]:
    return sorted(glob.glob(os.path.join(FOLDER, "*.h")))


def compile_args() -> list[str]:
    """No -march: a wheel serves every machine of its architecture. Warnings are errors only on request.

    No contraction: a sum of products has the same bits on every machine.
    """
    strict = ["-Werror"] if os.environ.get("SHMEMU_WERROR", "0") not in ("", "0") else []
    return ["-std=c11", "-O3", "-Wall", "-Wextra", "-ffp-contract=off", "-fvisibility=hidden", *strict]


def extension_args() -> dict[str, Any]:
    """What both extension modules have in common. A free-threaded Python has no limited API."""
    limited = not sysconfig.get_config_var("Py_GIL_DISABLED")
    return {
        "include_dirs": [FOLDER],
        "extra_compile_args": compile_args(),
        "extra_link_args": ["-pthread"],
        "depends": headers(),
        "py_limited_api": limited,
        "define_macros": [("Py_LIMITED_API", LIMITED_API)] if limited else [],
    }


def ffibuilder() -> Any:
    """cffi's builder of `shmem._native._core`; cffi calls it."""
    from cffi import FFI

    ffi = FFI()
    for name in DECLARATIONS:
        with open(name, encoding="utf-8") as declarations:
            ffi.cdef(declarations.read())
    ffi.set_source(
        "shmem._native._core",
        "#include <stdint.h>\n" + "".join(f'#include "{os.path.basename(name)}"\n' for name in DECLARATIONS),
        sources=sources(),
        **extension_args(),
    )
    return ffi


def missing() -> str | None:
    """What this machine lacks for the build, in one sentence that says what to install; None if nothing."""
    if sys.platform != "linux" or platform.machine() not in MACHINES:
        here = f"{sys.platform} on {platform.machine()}"
        return f"the C core needs Linux on {' or '.join(MACHINES)}, and this is {here}"
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if shutil.which(compiler[0]) is None:
        origin = "named by the variable CC " if os.environ.get("CC") else ""
        return (
            f"the C compiler {compiler[0]!r} {origin}is missing: "
            f"{'unset CC or ' if origin else ''}{DEBIAN} gcc libc6-dev)"
        )
    include = sysconfig.get_path("include")
    if not os.path.exists(os.path.join(include, "Python.h")):
        return f"Python's C headers are missing (no {include}/Python.h): {DEBIAN} python3-dev)"
    return _compiles(compiler, include)


def _compiles(compiler: list[str], include: str) -> str | None:
    """Builds a program of one line: a compiler may be there without the C library's headers or a linker."""
    with tempfile.TemporaryDirectory() as folder:
        probe = os.path.join(folder, "probe.c")
        with open(probe, "w", encoding="utf-8") as file:
            file.write(_PROBE)
        command = [*compiler, "-std=c11", "-I", include, probe, "-o", os.path.join(folder, "probe")]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        except OSError as error:
            return f"the C compiler {compiler[0]!r} can't be run ({error.strerror}): {DEBIAN} gcc libc6-dev)"
        if done.returncode == 0:
            return None
        lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
        reason = lines[0].replace(probe, "a test program") if lines else f"exit code {done.returncode}"
        return (
            f"the C compiler {shlex.join(compiler)!r} can't build a C11 program ({reason.strip()}): "
            f"{DEBIAN} gcc libc6-dev)"
        )


if __name__ == "__main__":
    problem = missing()
    sys.exit(f"shmemu can't be built here: {problem}" if problem else 0)
