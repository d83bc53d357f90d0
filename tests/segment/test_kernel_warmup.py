"""Kernels are compiled once for each kind of step."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from etl.catalogue import installed
from etl.plan.model import Branch, Segment, StepNode
from etl.segment import kernel_warmup

pytestmark = pytest.mark.slow

TEXT = pa.schema([("message", pa.string()), ("seen", pa.timestamp("us", tz="UTC"))])


@pytest.fixture(autouse=True)
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Marks of this test's own; kernels are those of the machine."""
    monkeypatch.setattr(kernel_warmup, "compiled_mark", lambda name, *packages: tmp_path / "steps" / name)
    return tmp_path / "steps"


def segment(*steps: Mapping[str, Any]) -> Segment:
    made = [installed().families["step"][str(one["type"])].model_validate(one) for one in steps]
    nodes = tuple(StepNode(f"s{n}", step, TEXT, TEXT) for n, step in enumerate(made))  # type: ignore[arg-type]
    return Segment({"in": Branch((), TEXT, branches=(Branch(nodes, TEXT),))}, {})


def test_steps_are_compiled_once(marks: Path) -> None:
    work = [segment({"type": "json", "fields": {"a": "int"}}, {"type": "filter", "where": "message like 'a%'"})]

    process = kernel_warmup.start_compiling(work)

    assert process is not None
    assert process.wait() == 0
    assert sorted(path.name.partition("-")[0] for path in marks.iterdir()) == ["filter", "json"]
    assert kernel_warmup.start_compiling(work) is None


def test_a_step_with_other_options_is_compiled(marks: Path) -> None:
    marks.mkdir()
    for node in kernel_warmup.step_nodes(segment({"type": "json", "fields": {"a": "int"}})):
        kernel_warmup._marker_file(node).touch()

    process = kernel_warmup.start_compiling([segment({"type": "json", "fields": {"a": "int"}, "rest": "others"})])

    assert process is not None
    assert process.wait() == 0
    assert len(list(marks.iterdir())) == 2


def test_a_step_that_fails_does_not_stop_the_others(marks: Path) -> None:
    process = kernel_warmup.start_compiling(
        [segment({"type": "set", "fields": {"b": "no_such_field"}}, {"type": "url", "field": "message"})]
    )

    assert process is not None
    assert process.wait() == 0
    assert len(list(marks.iterdir())) == 2
