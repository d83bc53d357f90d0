"""JSON lines without nulls: which members are omitted, and that nothing else changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.file.sink import FileSink
from connectors.shared import json_lines
from etl.columns.json.nulls import DEEPEST, leave_out

TEXTS = st.one_of(st.sampled_from([':null,"', '":null,"a":null}', "\\", '\\"', "{}", "[null]", "", "null", "\n"]), st.text())
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=20,
)


def without(value: Any) -> Any:
    """A reference: an object loses members that are null or become empty; lists keep their length."""
    if isinstance(value, list):
        return [without(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {name: (each, without(each)) for name, each in value.items() if each is not None}
    return {name: short for name, (each, short) in kept.items() if not (isinstance(short, dict) and each and not short)}


def left(lines: str) -> tuple[str, list[int]]:
    text = np.frombuffer(lines.encode(), np.uint8)
    out, ends = np.empty(len(text), np.uint8), np.empty(lines.count("\n"), np.int64)
    size = leave_out(text, out, ends, np.zeros((2, DEEPEST + 1), np.int64), np.zeros((2, DEEPEST + 1), bool))
    return out[:size].tobytes().decode(), np.diff(ends, prepend=0).tolist()


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(st.dictionaries(TEXTS, VALUES, max_size=5), max_size=4))
def test_only_nulls_and_objects_that_become_empty_are_omitted(events: list[dict[str, Any]]) -> None:
    dumped = "".join(json.dumps(event, ensure_ascii=False, separators=(",", ":")) + "\n" for event in events)

    lines, lengths = left(dumped)

    expected = [json.dumps(without(event), ensure_ascii=False, separators=(",", ":")) + "\n" for event in events]
    assert lines == "".join(expected)
    assert lengths == [len(line.encode()) for line in expected]


def test_very_deep_values_are_copied() -> None:
    deep = '{"a":' * (DEEPEST + 5) + '{"b":null}' + "}" * (DEEPEST + 5) + "\n"

    assert left(deep)[0] == deep


def test_null_fields_are_not_in_the_lines() -> None:
    batch = pa.RecordBatch.from_pylist(
        [
            {"n": None, "source.ip": "::1", "source.port": None, "tags": [None, "a"], "_offset": 0},
            {"n": 1, "source.ip": None, "source.port": None, "tags": None, "_offset": 1},
            {"n": None, "source.ip": None, "source.port": None, "tags": None, "_offset": 2},
        ]
    )

    lines = bytes(json_lines.encode(batch, "omit"))

    assert lines.decode() == '{"source":{"ip":"::1"},"tags":[null,"a"]}\n{"n":1}\n{}\n'
    assert json_lines.sizes(batch, "omit").to_pylist() == [len(line) + 1 for line in lines.splitlines()]


@pytest.mark.parametrize(("nulls", "text"), [("keep", '{"n":1,"host":null}\n'), ("omit", '{"n":1}\n')])
def test_the_file_sink_omits_nulls_if_set(tmp_path: Path, nulls: str, text: str) -> None:
    batch = pa.RecordBatch.from_pydict({"n": [1], "host": pa.nulls(1, pa.string())})
    sink = FileSink.model_validate({"type": "file", "path": str(tmp_path / "out.json"), "nulls": nulls})

    assert bytes(sink._encoding.encode(batch)).decode() == text


def test_nulls_is_an_option_for_json_only() -> None:
    sink = FileSink.model_validate({"type": "file", "path": "out.csv", "format": "csv", "nulls": "omit"})

    assert [(finding.code, finding.severity) for finding in sink.check(pa.schema([("n", pa.int64())]))] == [
        ("unused-option", "warning")
    ]
