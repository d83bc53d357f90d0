"""Compiles the kernels of a pipeline's steps in a separate process before workers need them; once on a machine.

Which kernels a step calls depends on its type, its options and its texts, so each step is run on sample lines of every format;
the results are discarded.
"""

from __future__ import annotations

import hashlib
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

import etl
from etl.api import (
    ALWAYS,
    NEVER,
    OFFSET,
    TIMESTAMP,
    ArrowStep,
    Schema,
    StatefulStep,
    Step,
    WarmsUp,
    WatermarkAdvance,
    with_columns,
)
from etl.columns.cache_folder import compiled_mark
from etl.plan.segments import Segment, StepNode
from etl.scanner import warm_up
from etl.state.key_hash import PARTS, key_hashes
from etl.udf.attaching import called_functions

SAMPLE_LINES = (
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
"""One line for each code path through the parsers' kernels."""


def start_compiling(segments: Iterable[Segment], stateful: Iterable[StepNode] = ()) -> subprocess.Popen[bytes] | None:
    """Start a process that compiles the kernels of these segments and of steps on the state lane that this machine does not have;
    returns None if it has all."""
    nodes = (*stateful, *(node for segment in segments for node in step_nodes(segment)))
    markers = {_marker_file(node): node for node in nodes if not any(called_functions(node.step))}
    missing = [(marker, node) for marker, node in markers.items() if not marker.exists()]
    if not missing and warm_up.marker().exists():
        return None
    process = subprocess.Popen(
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as pipe:
        pickle.dump(missing, pipe)
    return process


def step_nodes(segment: Segment) -> Iterable[StepNode]:
    """The steps of a segment."""
    return (node for root in segment.roots.values() for branch in root.walk() for node in branch.steps)


def _marker_file(node: StepNode) -> Path:
    """The file that marks a step's kernels as compiled; its name depends on the step's type and on which options are given."""
    step = node.step
    given = sorted(name for name in step.model_fields_set if getattr(step, name) is not None)
    name = hashlib.sha256("\0".join([step.type, *given]).encode()).hexdigest()[:12]
    return compiled_mark(f"{step.type}-{name}", Path(etl.__file__).parent, _package(step))


def _package(step: Step) -> Path:
    """The folder of the distribution's package that a step comes from."""
    return Path(str(sys.modules[type(step).__module__.split(".")[0]].__file__)).parent


def _compile(missing: Iterable[tuple[Path, StepNode]]) -> None:
    warm_up.warm_up()
    for marker, node in missing:
        if isinstance(node.step, ArrowStep):
            run_on_samples(node.step, node.incoming)
        elif isinstance(node.step, StatefulStep):
            with suppress(Exception), tempfile.TemporaryDirectory() as folder:
                run_with_state(node.step, node.incoming, Path(folder))
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()


def run_on_samples(step: ArrowStep, incoming: Schema) -> None:
    """Run a step on the sample lines, unless it calls the user's functions. Errors are ignored: the run reports them."""
    if any(called_functions(step)):
        return
    for text in [pa.string(), pa.string_view()] if step.takes_views else [pa.string()]:
        columns = {field.name: _column(field.type, text) for field in incoming}
        columns[OFFSET] = pa.array(range(len(SAMPLE_LINES)), pa.int64())
        with suppress(Exception):
            step.open(incoming)(pa.RecordBatch.from_pydict(columns))


def run_with_state(step: StatefulStep, incoming: Schema, folder: Path) -> None:
    """Run a step's operator on the sample events of three micro-batches, so that it finds those of earlier ones in its state."""
    import numpy as np

    from etl.state.key_hash import sort_by_hash
    from etl.state.manifest import Manifests
    from etl.state.part_rows import MappedStateFiles
    from etl.state.row_files import RowWriter

    sort_by_hash(np.zeros(2, np.uint64), np.arange(2))  # samples have no key twice in a micro-batch

    columns = {field.name: _column(field.type, pa.string()) for field in incoming}
    columns[OFFSET] = pa.array(range(len(SAMPLE_LINES)), pa.int64())
    events, state, operator = pa.RecordBatch.from_pydict(columns), Manifests(folder, durable=False), step.operator(incoming)
    time, _ = step.event_time() or ("", None)
    if isinstance(operator, WarmsUp):
        operator.warm_up()
        key_hashes(events, [key for key in operator.keys if key in events.schema.names])
    stored = MappedStateFiles(folder, ())
    for number, watermark in enumerate((NEVER, 2, ALWAYS)):
        rows, after = (RowWriter(operator, state, f"rows-{number}-{what}") for what in ("arrived", "state"))
        rows.add(with_columns(events, {time: pa.array([number] * len(SAMPLE_LINES)).cast(TIMESTAMP)}))
        arrived = MappedStateFiles(folder, rows.close())
        for results in operator.run(
            WatermarkAdvance(NEVER, watermark), arrived.parts(*range(PARTS)), stored.parts(*range(PARTS))
        ):
            if isinstance(results, pa.Table):
                after.add_to_state(results)
        stored = MappedStateFiles(folder, after.close())


def _column(type_: pa.DataType, text: pa.DataType) -> pa.Array:
    """Sample values: the sample lines for texts, which get the type ``text``; null for other types."""
    if pa.types.is_list(type_):
        one_each = pa.array(range(len(SAMPLE_LINES) + 1), pa.int32())
        return pa.ListArray.from_arrays(one_each, _column(type_.value_type, text))
    if pa.types.is_struct(type_):
        return pa.StructArray.from_arrays([_column(field.type, text) for field in type_], fields=list(type_))
    return pa.array(SAMPLE_LINES, text) if type_ == pa.string() else pa.nulls(len(SAMPLE_LINES), type_)


if __name__ == "__main__":
    _compile(pickle.load(sys.stdin.buffer))
