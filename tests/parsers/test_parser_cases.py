"""Cases of parsers: ``<parser>/<case>.yaml`` has lines, and the fields or the reject of each.

A file is one or more documents, each with options of the parser::

    # What the case shows.
    options: {naming: written}        # a list: the lines hold for each of several sets of options
    now: 2026-01-01T00:30:00Z         # the time of the run, where dates lack a year
    lines:
      - line: "CEF:0|v|p|1|100|n|5|src=::1"
        fields: {cefVersion: "0", src: "::1"}      # all fields that are not null
      - line: junk
        reject: has no 'CEF:' with a version after it
      - line: "#Version: 1.0"
        dropped: true

A line is a text, null, bytes that are not UTF-8 (``!!binary``), or a number for the parser ``timestamp``. Values have the type
that the parser gives them; ``!decimal "1.50"`` is a decimal. ``code`` beside ``reject`` is needed where it is not
``<parser>-failed``. A parser is opened once a document and once a set of options, and reads the lines as texts and as views.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from pydantic import ValidationError

from etl.api import Outcome, Parser
from etl.catalogue import installed
from etl.columns.texts import materialize

HERE = Path(__file__).parent
NANOSECONDS = 1_000_000_000


class CaseError(ValueError):
    """A case file that cannot be read; the message begins with the file and the line."""


class _Loader(yaml.CSafeLoader):
    """YAML with decimals."""


_Loader.add_constructor("!decimal", lambda loader, node: Decimal(loader.construct_scalar(node)))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Line:
    """A line and what the parser makes of it: fields, a reason, or neither when it is dropped."""

    where: str
    line: Any
    fields: Mapping[str, Any] | None = None
    reject: str | None = None
    code: str | None = None

    @property
    def expected(self) -> Any:
        return {"reject": self.reject, "code": self.code} if self.reject is not None else self.fields


@dataclass(frozen=True)
class Case:
    """Lines for one parser with one set of options."""

    where: str
    parser: str
    options: Mapping[str, Any]
    now: datetime | None
    lines: Sequence[Line]


# ── Reading case files ────────────────────────────────────────────────────────────────────────────


def read_cases(path: Path) -> Iterator[Case]:
    """The cases of a file. Raises CaseError."""
    name = f"{path.parent.name}/{path.name}"
    loader = _Loader(path.read_text(encoding="utf-8"))
    try:
        while loader.check_node():
            yield from _document(loader, loader.get_node(), name, path.parent.name)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        hint = "; put a text with ': ' in it in quotes" if "mapping values" in str(error.problem) else ""
        raise CaseError(f"{name}:{line}: {error.problem}{hint}") from None


def _document(loader: _Loader, node: yaml.Node, name: str, parser: str) -> Iterator[Case]:
    where = f"{name}:{_line(node)}"
    keys = _keys(node, where, {"options", "now", "lines"})
    values = {key: loader.construct_object(keys[key], deep=True) for key in ("options", "now") if key in keys}
    lines = keys.get("lines")
    if not isinstance(lines, yaml.SequenceNode) or not lines.value:
        raise CaseError(f"{where}: a case has a list of 'lines'")
    read = [_read_line(loader, line, name, parser) for line in lines.value]
    options = values.get("options") or {}
    for number, one in enumerate(options if isinstance(options, list) else [options]):
        if not isinstance(one, dict):
            raise CaseError(f"{where}: 'options' are the parser's options, or a list of such")
        yield Case(f"{where}#{number}" if isinstance(options, list) else where, parser, one, values.get("now"), read)


def _read_line(loader: _Loader, node: yaml.Node, name: str, parser: str) -> Line:
    where = f"{name}:{_line(node)}"
    keys = _keys(node, where, {"line", "fields", "reject", "code", "dropped"})
    values = {key: loader.construct_object(value, deep=True) for key, value in keys.items()}
    if "line" not in values or sum(key in values for key in ("fields", "reject", "dropped")) != 1:
        raise CaseError(f"{where}: a line has 'line', and one of 'fields', 'reject' and 'dropped: true'")
    fields, reject = values.get("fields"), values.get("reject")
    if not isinstance(fields, dict | None) or not isinstance(reject, str | None) or ("code" in values and reject is None):
        raise CaseError(f"{where}: 'fields' is a mapping, 'reject' a reason, 'code' stands beside 'reject'")
    code = values.get("code", f"{parser}-failed") if reject is not None else None
    return Line(where, values["line"], fields, reject, code)


def _keys(node: yaml.Node, where: str, known: set[str]) -> dict[str, yaml.Node]:
    """The values of a mapping by key. Raises CaseError for anything else, and for keys that are unknown or repeated."""
    if not isinstance(node, yaml.MappingNode):
        raise CaseError(f"{where}: expected a mapping with {', '.join(sorted(known))}")
    found: dict[str, yaml.Node] = {}
    for key, value in node.value:
        if key.value not in known or key.value in found:
            problem = "appears twice" if key.value in found else f"is unknown; keys are {', '.join(sorted(known))}"
            raise CaseError(f"{where.rpartition(':')[0]}:{_line(key)}: {key.value!r} {problem}")
        found[key.value] = value
    return found


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


# ── Running cases ─────────────────────────────────────────────────────────────────────────────────


def run_case(case: Case) -> list[str]:
    """The lines whose outcome differs, each with file and line. Raises CaseError for bad options."""
    with pytest.MonkeyPatch.context() as patch:
        if case.now is not None:
            now = int(case.now.replace(tzinfo=case.now.tzinfo or UTC).timestamp() * NANOSECONDS)
            patch.setattr(time, "time_ns", lambda: now)
        return _differences(case)


def _differences(case: Case) -> list[str]:
    step = _step(case)
    column = _column(case.lines)
    batch = pa.record_batch({step.field: column, "_offset": pa.array(range(len(column)), pa.int64())})
    run = _open(step, batch.schema, case)
    found = _outcomes(step, run(batch), batch)
    differences = [
        f"{line.where}: {line.line!r}\n  expected {line.expected!r}\n  found    {outcome!r}"
        for line, outcome in zip(case.lines, found, strict=True)
        if not _same(line.expected, outcome)
    ]
    if type(step).takes_views and pa.types.is_string(column.type):
        views = pa.record_batch([column.cast(pa.string_view()), batch.column("_offset")], names=batch.schema.names)
        for line, outcome, other in zip(case.lines, found, _outcomes(step, run(views), views), strict=True):
            if not _same(outcome, other):
                differences.append(f"{line.where}: {line.line!r}\n  as a view {other!r}\n  as a text {outcome!r}")
    return differences


def _step(case: Case) -> Parser:
    component = installed().families["step"].get(case.parser)
    if component is None or not issubclass(component, Parser):
        raise CaseError(f"{case.where}: there is no parser {case.parser!r}")
    try:
        return component(**case.options)
    except ValidationError as error:
        first = error.errors()[0]
        raise CaseError(f"{case.where}: options: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _open(step: Parser, schema: pa.Schema, case: Case) -> Callable[[pa.RecordBatch], Outcome]:
    """The parser, opened. Raises CaseError for options that do not fit each other."""
    problems = [finding.message for finding in step.check(schema) if finding.severity == "error"]
    if problems:
        raise CaseError(f"{case.where}: {problems[0]}")
    return step.open(schema)


def _outcomes(step: Parser, outcome: Outcome, batch: pa.RecordBatch) -> list[Any]:
    """For each line its fields, its reject, or None when it is dropped."""
    events, rejects = materialize(outcome.events), outcome.rejects
    assert events.schema == step.fields(materialize(batch).schema), "events have other fields than the parser announces"
    found: list[Any] = [None] * batch.num_rows
    columns = {name: _values(events.column(name)) for name in step.parsed_fields().names}
    for row, offset in enumerate(events.column("_offset").to_pylist()):
        found[offset] = {name: values[row] for name, values in columns.items() if values[row] is not None}
    for part in rejects:
        reasons = [part.reasons] * part.events.num_rows if isinstance(part.reasons, str) else part.reasons.to_pylist()
        for offset, reason in zip(part.events.column("_offset").to_pylist(), reasons, strict=True):
            found[offset] = {"reject": reason, "code": part.code}
    return found


def _values(column: pa.Array) -> list[Any]:
    """The values of a column; a text that is not UTF-8 as its bytes."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        return [_decoded(raw) for raw in column.cast(pa.binary()).to_pylist()]


def _decoded(raw: bytes | None) -> str | bytes | None:
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        return raw


def _column(lines: Sequence[Line]) -> pa.Array:
    """The lines as a column. Raises CaseError where texts and numbers are mixed, such as by 1.2 without quotes."""
    values = [line.line for line in lines]
    is_text = all(isinstance(value, str | bytes | None) for value in values)
    for line, value in zip(lines, values, strict=True):
        if not is_text and isinstance(values[0], str) and not isinstance(value, str | bytes | None):
            raise CaseError(f"{line.where}: {value!r} is not a text as the first line; put it in quotes")
    if is_text:
        raw = [value.encode() if isinstance(value, str) else value for value in values]
        return pa.array(raw, pa.binary()).view(pa.string())
    return pa.array(values)


def _same(one: Any, other: Any) -> bool:
    """Equal, and of the same types: 1 is neither 1.0 nor true. A map is a list of pairs."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return type(one) is type(other) and bool(one == other)


# ── Tests ─────────────────────────────────────────────────────────────────────────────────────────


def _all() -> Iterator[Any]:
    """Every case; a file that cannot be read is a case that fails."""
    for path in sorted(HERE.glob("*/*.yaml")):
        try:
            yield from [pytest.param(case, id=case.where) for case in read_cases(path)]
        except CaseError as error:
            yield pytest.param(error, id=f"{path.parent.name}/{path.name}")


@pytest.mark.parametrize("case", list(_all()))
def test_case(case: Case | CaseError) -> None:
    if isinstance(case, CaseError):
        pytest.fail(f"tests/parsers/{case}", pytrace=False)
    try:
        differences = run_case(case)
    except CaseError as error:
        differences = [str(error)]
    if differences:
        pytest.fail("\n".join(f"tests/parsers/{text}" for text in differences), pytrace=False)


GOOD = "options: {}\nlines:\n  - {line: junk, reject: has no 'CEF:' with a version after it}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lines: [", "x.yaml:2: did not find expected node content"),
        (
            "lines:\n  - line: a: b",
            "x.yaml:2: mapping values are not allowed in this context; put a text with ': ' in it in quotes",
        ),
        ("options: {}", "x.yaml:1: a case has a list of 'lines'"),
        ("- a", "x.yaml:1: expected a mapping with lines, now, options"),
        ("option: {}\nlines: []", "x.yaml:1: 'option' is unknown; keys are lines, now, options"),
        ("options: {}\noptions: {}\nlines: []", "x.yaml:2: 'options' appears twice"),
        ("options: 1\nlines: [{line: a, dropped: true}]", "x.yaml:1: 'options' are the parser's options, or a list of such"),
        ("lines:\n  - line: a\n    filds: {}", "x.yaml:3: 'filds' is unknown; keys are code, dropped, fields, line, reject"),
        ("lines:\n  - line: a", "x.yaml:2: a line has 'line', and one of 'fields', 'reject' and 'dropped: true'"),
        ("lines: [{line: a, dropped: true},\n  {line: 1.2, dropped: true}]", "x.yaml:2: 1.2 is not a text as the first line"),
        ("lines:\n  - {line: a, fields: {}, code: b}", "x.yaml:2: 'fields' is a mapping, 'reject' a reason"),
        (GOOD + "---\n" + GOOD.replace("{}", "{namings: ecs}"), "x.yaml:5: options: namings: "),
        (GOOD.replace("{}", "{fields: {a: 'map<int,int>'}}"), "x.yaml:1: field 'a' is map<int,int>: "),
        (GOOD.replace("has no", "has"), "x.yaml:3: 'junk'\n  expected {'reject': \"has 'CEF:'"),
        (GOOD.replace("reject: has no 'CEF:' with a version after it", "fields: {}"), "x.yaml:3: 'junk'\n  expected {}"),
    ],
)
def test_a_mistake_in_a_case_file_is_reported_with_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "cef" / "x.yaml"
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")

    try:
        found = [difference for case in read_cases(path) for difference in run_case(case)]
    except CaseError as error:
        found = [str(error)]

    assert len(found) == 1
    assert found[0].startswith(f"cef/{message}")


def test_values_of_other_types_differ() -> None:
    assert _same({"a": [1, ("x", None)]}, {"a": [1, ["x", None]]})
    assert not any(_same(1, other) for other in (1.0, True, "1", Decimal(1), None))


def test_every_parser_has_cases() -> None:
    parsers = {name for name, component in installed().families["step"].items() if issubclass(component, Parser)}

    without = parsers - {path.parent.name for path in HERE.glob("*/*.yaml")}
    assert without == {"geoip"}, "a case is a file tests/parsers/NAME/CASE.yaml"  # the tests of geoip make their databases
