"""Loading the kernels before they are needed: the process from which workers are forked does so once, and they share them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from etl import columns
from etl.columns.cache_folder import compiled_mark, tidy

if TYPE_CHECKING:
    from etl.scanner.tree import Node


def warm_up() -> None:
    """Run the kernels of every log pipeline on one line; those that were never compiled on this machine are compiled now."""
    import pyarrow as pa

    from etl.columns import lines
    from etl.columns.json.lines import JsonWriter
    from etl.columns.texts import materialize_array
    from etl.scanner.scanner import Scanner
    from etl.scanner.syntax import parse

    block = pa.py_buffer(b"one line\n")
    cut = lines.cut(block, lines.survey(block).newlines, False)
    found = Scanner([parse(r"^(?<field>.*) line$", _no_name)]).scan(cut.texts)
    JsonWriter([b'{"field":"', b'"}\n'], [pa.string_view()], [False]).write([found.captures["field"]], 1)
    materialize_array(cut.texts)
    marker().parent.mkdir(parents=True, exist_ok=True)
    marker().touch()


def _no_name(name: str, at: int) -> Node:
    raise AssertionError(f"%{{{name}}} at {at}")


def marker() -> Path:
    """The file that exists once `warm_up` has run with this code on this machine."""
    return compiled_mark("warm", Path(columns.__file__).parent, Path(__file__).parent)


def compile_in_subprocess() -> None:
    """Compile missing kernels in a separate process, because the compiler would keep 60 MB in this one."""
    if not marker().exists():
        tidy()
        subprocess.run([sys.executable, "-m", "etl.scanner.warm_up"], check=False, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    warm_up()
