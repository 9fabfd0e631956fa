"""The build's moving parts; everything that is plain data stands in pyproject.toml.

Two extension modules share the C files of shmem/_native (see build.py there). What the machine lacks for them
is said in one sentence before anything is built, instead of a compiler's errors or a traceback.
"""

from __future__ import annotations

import os
import runpy
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

NATIVE = runpy.run_path(os.path.join("shmem", "_native", "build.py"))
COMPILING = {"bdist_wheel", "build", "build_ext", "develop", "editable_wheel", "install"}

# Not for every command: an sdist can be made, and metadata asked for, on a machine without a compiler.
if COMPILING & set(sys.argv) and (problem := NATIVE["missing"]()):
    raise SystemExit(f"shmemu can't be built here: {problem}")


class BuildExt(build_ext):
    """Adds NumPy's headers, whose place is only known (and needed) when something is compiled."""

    def run(self) -> None:
        import numpy

        for extension in self.extensions:
            if extension.name == HOT.name:
                extension.include_dirs.append(numpy.get_include())
        super().run()


HOT = Extension("shmem._native._hot", [NATIVE["HOT"], *NATIVE["sources"]()], **NATIVE["extension_args"]())

setup(
    cffi_modules=["shmem/_native/build.py:ffibuilder"],
    ext_modules=[HOT],
    cmdclass={"build_ext": BuildExt},
    options={"bdist_wheel": {"py_limited_api": NATIVE["LIMITED_TAG"]}} if HOT.py_limited_api else {},
)
