"""The compiler's pages are let go, and it still works."""

from __future__ import annotations

import subprocess
import sys

from etl.columns.compiler_memory import _untouched

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
import numba, pyarrow as pa
from etl.scanner.warm import warm
from etl.columns.compiler_memory import shed_compiler
warm(); shed_compiler(); warm()
print(numba.njit(lambda x: 2 * x)(21))
"""


def test_only_what_nobody_has_written_to_is_let_go() -> None:
    assert list(_untouched(SMAPS)) == [(0x7F00, 0x7F10), (0x7F40, 0x7F50)]


def test_kernels_and_compiler_work_afterwards() -> None:
    done = subprocess.run([sys.executable, "-c", AGAIN], capture_output=True, text=True, check=True)

    assert done.stdout == "42\n"
