"""The parser `w3c`: logs in the W3C extended format, as IIS writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from etl.api import FieldName, Finding, Outcome, Parsed, Parser, Rejects, Schema, nearest
from etl.columns.texts import filter_batch, materialize_array, take_rows
from etl.scanner.scanner import Scanner
from parsers.common.failures import Failures, wrong_values
from parsers.common.field_checks import field_conflicts
from parsers.common.view_values import begins_with, blanks_for_pluses
from parsers.w3c.names import PRESETS, field_list, has_plus, values
from parsers.weblog.field_readers import TYPES, field_kinds, field_readers
from parsers.weblog.format_parts import Value
from parsers.weblog.line_layout import CAPTURE, LineLayout, add_kind, address, drop_repeated

if TYPE_CHECKING:
    import numpy as np

    Bools = np.ndarray[Any, Any]

_SPACE = r"[ \t]+"
_DAY, _CLOCK = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d(?::\d\d(?:\.\d+)?)?"
_FORMATS = ("yyyy-MM-dd HH:mm:ss[.SSSSSSSSS]", "yyyy-MM-dd HH:mm")


class W3c(Parser):
    """Reads lines of the W3C extended log format, which a ``#Fields:`` line describes, into fields of ECS.

    ``fields`` holds such lines, or names: ``iis`` (the default of IIS 8 and later), ``iis7``, ``iis_all``, ``iis_error``
    (HTTP.sys), ``iis_error_2012``, ``cloudfront``. Several are tried in order: the first that fits a line counts.
    ``date`` and ``time`` side by side become ``timestamp`` (UTC, as the format says), ``c-ip`` becomes ``source.address``
    and, where it is one, ``source.ip``, ``time-taken`` ``event.duration`` in nanoseconds, ``cs(User-Agent)``
    ``user_agent.original``; fields that ECS lacks are ``w3c.x_edge_location`` and the like. ``-`` is null. IIS
    writes ``+`` for a blank in header values; ``plus`` says whether it becomes one again.

    Lines that begin with ``#`` are dropped and counted as filtered, but for a ``#Fields:`` line that names other fields
    than this parser has: it goes to the dead letters as ``w3c-other-fields``, for the lines after it fail or are misread.
    A line fails when it has more or fewer values than there are fields, or a value that is not a number or time where it
    must be.

    Runs on the scanner, over whole batches in linear time.

    ```yaml
    type: w3c
    fields: ["#Fields: date time cs-method cs-uri-stem c-ip cs(User-Agent) sc-status time-taken", iis]
    ```
    """

    type: Literal["w3c"] = "w3c"
    takes_views: ClassVar[bool] = True

    lists: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=("iis",),
        alias="fields",
        min_length=1,
        max_length=20,
        description="The log's lines of fields, or names of well-known ones, tried in order.",
        examples=[["iis"], ["#Fields: date time c-ip cs-method sc-status"]],
    )
    plus: bool = Field(default=True, description="Whether a plus in header values stands for a blank.")
    timestamp: FieldName = Field(default="timestamp", description="The field that gets date and time.")

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Names that are not a list of fields, fields that repeat or contradict each other."""
        yield from super().check(incoming)
        for number, names in enumerate(self._lists):
            yield from _check_list(names, ("fields", number))
        yield from field_conflicts(self, "fields")

    def parsed_fields(self) -> Schema:
        """The listed fields."""
        return pa.schema([(name, TYPES.get(kind, pa.string())) for name, kind in field_kinds(self._layouts).items()])

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        """As every parser, without the directives."""
        run = super().open(incoming)

        def without_directives(batch: pa.RecordBatch) -> Outcome:
            texts = batch.column(self.field)
            directives = begins_with(texts, "#") | begins_with(texts, "\ufeff#")
            if not directives.any():
                return run(batch)
            events, rejects = run(filter_batch(batch, pa.array(~directives)))
            return Outcome(events, [*rejects, *self._reject_directives(batch, directives)])

        return without_directives

    def _reject_directives(self, batch: pa.RecordBatch, directives: Bools) -> Iterable[Rejects]:
        """Directives that name other fields. A loop over directives, of which a log has four at its beginning."""
        wrong = directives.copy()
        texts = materialize_array(take_rows(batch.column(self.field), directives.nonzero()[0])).to_pylist()
        lists = [text.removeprefix("\ufeff") for text in texts]
        wrong[directives] = [text.startswith("#Fields:") and field_list(text) not in self._lists for text in lists]
        if wrong.any() and self.on_error == "dead_letter":
            reason = f"the lines here have the values of {self._describe}"
            yield Rejects(filter_batch(batch, pa.array(wrong)), "w3c-other-fields", reason)

    def compile(self) -> Callable[[pa.StringArray], Parsed]:
        """One pattern over the whole column."""
        made = self._layouts
        scanner = Scanner([one.tree() for one in made])
        read_all = field_readers(made, "UTC", False)
        pluses = self._pluses() if self.plus else frozenset()

        def parse(text: pa.Array) -> Parsed:
            scan = scanner.scan(text)
            failures = Failures(scan.unmatched, "" if scan.unmatched is None else self._reasons(text, scan.unmatched))
            columns = {}
            for name, read in read_all.items():
                columns[name], wrong, expected = read(scan)
                if wrong is not None:
                    failures.add(wrong, wrong_values(name, scan.captures[name], wrong, expected))
                if name in pluses:
                    columns[name] = blanks_for_pluses(columns[name])
            return failures.to_parsed(columns)

        return parse

    @property
    def _lists(self) -> list[list[str]]:
        return [field_list(text) for text in self.lists]

    @property
    def _layouts(self) -> list[LineLayout]:
        return [_compile_layout(names, self.timestamp) for names in self._lists]

    @property
    def _describe(self) -> str:
        return " or of ".join(f"{len(names)} fields: {' '.join(names)}" for names in self._lists)

    def _pluses(self) -> frozenset[str]:
        pairs = [pair for names in self._lists for pair in zip(names, values(names), strict=True)]
        return frozenset(value.field for name, value in pairs if has_plus(name))

    def _reasons(self, texts: pa.Array, failed: pa.BooleanArray) -> pa.StringArray:
        """How many words the failed texts have, null for the others."""
        many = pc.count_substring_regex(pc.if_else(failed, materialize_array(texts).cast(pa.string()), None), r"\S+")
        remark = f"words, not the values of {self._describe}"
        return pc.fill_null(pc.binary_join_element_wise("has", many.cast(pa.string()), remark, " "), f"{self.field} is null")


def _check_list(names: list[str], path: tuple[str | int, ...]) -> Iterator[Finding]:
    if not names:
        yield Finding("no-field", "there is no field in the list", path)
    if len(names) == 1 and "-" not in names[0] and "(" not in names[0]:
        hint = nearest(names[0], PRESETS) or f"names are {', '.join(PRESETS)}"
        yield Finding("unknown-format", f"there is no list of fields {names[0]!r}", path, hint)
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Finding("field-conflict", f"{name!r} is in the list twice", path)


# ── Layouts ───────────────────────────────────────────────────────────────────────────────────────


def _compile_layout(names: Sequence[str], timestamp: str) -> LineLayout:
    """Values with blanks or tabs between; a text with blanks stands in quotes."""
    made = LineLayout("")
    expressions: list[str] = []
    known_names: set[str] = set()
    left = list(zip(names, values(list(names)), strict=True))
    while left:
        name, value = left.pop(0)
        if name == "date" and left and left[0][0] == "time":
            left.pop(0)
            value = Value(timestamp, "time", _FORMATS)
        expressions.append(drop_repeated(_value_expression(value), known_names))
        known_names.update(CAPTURE.findall(expressions[-1]))
        add_kind(value, made)
    made.pattern = rf"\s*{_SPACE.join(expressions)}\s*"
    return made


def _value_expression(value: Value) -> str:
    name = value.field
    if value.kind == "time":
        return rf"(?:-{_SPACE}-|(?<{name}>{_DAY}{_SPACE}{_CLOCK}))"
    if value.kind == "address":
        return f"(?:-|{address(name)})"
    if value.kind in ("real", "seconds"):
        return rf"(?:-|(?<{name}>\d+(?:\.\d+)?))"
    if value.kind in ("whole", "milliseconds"):
        return rf"(?:-|(?<{name}>\d+))"
    if value.kind == "protocol":
        return rf"(?:-|(?:HTTP/)?(?<{name}>[^\s\"]+))"
    return rf"(?:\"(?<{name}>[^\"]*)\"|(?<{name}>[^\s\"]\S*))"
