"""Compiling the kernels of a pipeline's steps before its workers need them: once on a machine, in a process of its own.

Which kernels a step calls depends on its type and options, and on what the texts look like: so each step is given a few
lines of every kind of format, and what it makes of them is thrown away.
"""

from __future__ import annotations

import hashlib
import pickle
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from etl.api import OFFSET, ArrowStep, Schema
from etl.columns.cache_folder import kernels
from etl.plan.model import Segment, StepNode

LINES = (
    "one line",
    '{"a": 1, "b": {"c": "d\\u00e9\\n"}, "e": [1, 2.5, null, true]}',
    'a=1 b="two \\" words" c=[3]',
    "<34>Oct 11 22:14:15 gate sshd[7]: Accepted",
    '<34>1 2026-01-02T03:04:05Z gate app 7 ID [x@1 y="z \\] w"] text',
    "CEF:0|a|b|1|c|name\\|more|5|src=192.0.2.1 msg=a\\=b c",
    "LEEF:2.0|a|b|1|c|^|src=192.0.2.1^usrName=x",
    "LEEF:1.0|a|b|1|c|src=192.0.2.1\tusrName=x",
    "aGVsbG8gd29ybGQ=",
    "a%20b%2Fc",
    "68656c6c6f",
    "https://example.com/a?b=c%20d&e=f",
)
"""One for each way that texts take through the kernels of parsers."""


def begin(segments: Iterable[Segment]) -> subprocess.Popen[bytes] | None:
    """Start compiling what the steps of these segments need and this machine has not compiled yet; None if there is nothing."""
    wanted = {_mark(node): node for segment in segments for node in nodes(segment)}
    missing = [(mark, node) for mark, node in wanted.items() if not mark.exists()]
    if not missing and kernels().exists():
        return None
    process = subprocess.Popen(
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as pipe:
        pickle.dump(missing, pipe)
    return process


def nodes(segment: Segment) -> Iterable[StepNode]:
    """The steps of a segment."""
    return (node for root in segment.roots.values() for branch in root.walk() for node in branch.steps)


def _mark(node: StepNode) -> Path:
    """A file that says that kernels for such a step have been compiled; which depends on the options that are given."""
    step = node.step
    given = sorted(name for name in step.model_fields_set if getattr(step, name) is not None)
    name = hashlib.sha256("\0".join([step.type, *given]).encode()).hexdigest()[:12]
    return kernels() / "steps" / f"{step.type}-{name}"


def _compile(missing: Iterable[tuple[Path, StepNode]]) -> None:
    from etl.scanner import warm

    warm.warm()
    for mark, node in missing:
        if isinstance(node.step, ArrowStep):
            attempt(node.step, node.incoming)
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


def attempt(step: ArrowStep, incoming: Schema) -> None:
    """Run a step on the lines. What it raises would come again in the run, where it is reported."""
    for text in [pa.string(), pa.string_view()] if step.takes_views else [pa.string()]:
        columns = {field.name: _column(field.type, text) for field in incoming}
        columns[OFFSET] = pa.array(range(len(LINES)), pa.int64())
        with suppress(Exception):
            step.open(incoming)(pa.RecordBatch.from_pydict(columns))


def _column(wanted: pa.DataType, text: pa.DataType) -> pa.Array:
    return pa.array(LINES, text) if wanted == pa.string() else pa.nulls(len(LINES), wanted)


if __name__ == "__main__":
    _compile(pickle.load(sys.stdin.buffer))
