"""Loading the kernels before they are needed: Spark's worker daemon does so once, and the workers it forks share them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from etl import columns
from etl.columns.cache_folder import compiled_mark, tidy

if TYPE_CHECKING:
    from etl.scanner.tree import Node


def warm() -> None:
    """Do with one line what every log pipeline does; kernels that were never compiled on this machine are compiled now."""
    import pyarrow as pa

    from etl.columns import lines
    from etl.columns.json_lines import JsonWriter
    from etl.columns.texts import owned_array
    from etl.scanner.scanner import Scanner
    from etl.scanner.syntax import parse

    block = pa.py_buffer(b"one line\n")
    cut = lines.cut(block, lines.survey(block).newlines, False)
    found = Scanner([parse(r"^(?<field>.*) line$", _no_name)]).scan(cut.texts)
    JsonWriter([b'{"field":"', b'"}\n'], [pa.string_view()], [False]).write([found.captures["field"]], 1)
    owned_array(cut.texts)
    mark().parent.mkdir(exist_ok=True)
    mark().touch()


def _no_name(name: str, at: int) -> Node:
    raise AssertionError(f"%{{{name}}} at {at}")


def mark() -> Path:
    """The file that says that `warm` has run with this code on this machine."""
    return compiled_mark("warm", Path(columns.__file__).parent, Path(__file__).parent)


def compile_apart() -> None:
    """Compile what this machine has not compiled yet in a process that ends: compiling leaves 60 MB behind."""
    if not mark().exists():
        tidy()
        subprocess.run([sys.executable, "-m", "etl.scanner.warm"], check=False, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    warm()
