"""Loading kernels does not load what the compiler knows; the compiler's pages are released, and it still works."""

from __future__ import annotations

import subprocess
import sys

import pytest

from etl.columns.compiler_memory import _unmodified_mappings

SMAPS = """\
7f00-7f10 r-xp 00000000 fe:00 12 /lib/libllvmlite.so
Rss:                 100 kB
Anonymous:             0 kB
7f10-7f20 r--p 00000000 fe:00 12 /lib/libllvmlite.so
Anonymous:             4 kB
7f20-7f30 rw-p 00000000 fe:00 12 /lib/libllvmlite.so
Anonymous:             0 kB
7f30-7f40 r-xp 00000000 fe:00 13 /lib/libarrow.so
Anonymous:             0 kB
7f40-7f50 r--p 00000000 fe:00 12 /lib/libllvmlite.so
Anonymous:             0 kB
"""

AGAIN = """
import sys, numba
from etl.scanner.warm_up import compile_in_subprocess, warm_up
from etl.columns.compiler_memory import shed_compiler
compile_in_subprocess(); warm_up()
print([name for name in ("numba.typed.typeddict", "numba.np.linalg", "numba.cpython.setobj") if name in sys.modules])
shed_compiler(); warm_up()
print(numba.njit(lambda x: 2 * x)(21))
"""


def test_only_unmodified_mappings_are_released() -> None:
    assert list(_unmodified_mappings(SMAPS)) == [(0x7F00, 0x7F10), (0x7F40, 0x7F50)]


@pytest.mark.slow
def test_kernels_and_compiler_work_afterwards() -> None:
    done = subprocess.run([sys.executable, "-c", AGAIN], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n42\n"
