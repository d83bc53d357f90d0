"""The parser `dissect`: texts cut at fixed delimiters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import ClassVar, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from etl.api import FieldName, Finding, Parsed, Parser, Schema, TypeName, format_type, nearest, parse_type
from etl.columns.texts import materialize_array
from etl.scanner.pattern_error import PatternError
from etl.scanner.scanner import Scanner
from parsers.common.failures import Failures, wrong_values
from parsers.common.field_checks import check_type, field_conflicts
from parsers.common.text_types import make_reader
from parsers.common.view_values import empty_where
from parsers.dissect.scan_plan import FieldPiece, plan_scan
from parsers.dissect.syntax import Dissection, Key, dissection


class Dissect(Parser):
    """Cuts text at fixed delimiters into fields, in the pattern language of Logstash, Elasticsearch and Filebeat.

    ``%{name}`` takes what comes before the text that follows it in the pattern, up to its first occurrence; the
    last key takes the rest, new lines too. A pattern that ends in text ignores what follows. An empty value is an
    empty text. Names are ``a.b`` or ``[a][b]``; the last of two keys of one name counts. Modifiers:

    - ``%{}``, ``%{?name}``: skipped.
    - ``%{+name}``: appended to ``name``, with the delimiter before it (or ``append_separator``) between;
      ``%{+name/2}`` says the order.
    - ``%{name->}``: the delimiter after it may be repeated, as where columns are padded with blanks.
    - ``%{name#4}``: as many characters, whatever they are; no text has to follow it. If one does, it must be there.
    - ``%{name|int}``: a value of a Spark SQL type, or Filebeat's ``ip``, which stays a text; blanks around it are cut, an
      empty one is null, one that does not fit fails the event.
    - ``%{*key} %{&key}`` (or ``%{?key}``, or ``%{key}``, which stays a field): the first holds the name of the field that
      gets the second. Names that ``fields`` declares become fields, all others one JSON object in the field ``rest``
      (null when there are none).

    Runs on the scanner, over whole batches in linear time. A text without one of the delimiters fails.

    ```yaml
    type: dissect
    pattern: '%{timestamp} %{+timestamp} %{log.level->} [%{process.thread.name}] %{took|int} ms: %{text}'
    ```
    """

    type: Literal["dissect"] = "dissect"
    takes_views: ClassVar[bool] = True

    pattern: str = Field(min_length=1, description="Keys and the text between them.", examples=["%{source.ip} - %{text}"])
    declared: dict[FieldName, TypeName] = Field(
        default={},
        alias="fields",
        description="Spark SQL types of keys that are not text, and the fields that references may name.",
        examples=[{"took": "int"}],
    )
    rest: FieldName = Field(default="rest", description="Text field for the JSON of references whose names are not declared.")
    trim: Literal["none", "left", "right", "both"] = Field(
        default="none", description="On which side blanks are cut from values."
    )
    append_separator: str | None = Field(
        default=None, description="Text between appended values; none means the delimiter that the pattern has there."
    )

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """A bad pattern, types that no text fills, fields that contradict each other."""
        yield from super().check(incoming)
        found = dissection(self.pattern)
        if isinstance(found, PatternError):
            yield Finding(found.code, found.message, ("pattern",), found.hint, at=found.at)
            return
        yield from self._check_types(found)
        yield from field_conflicts(self, "pattern")
        if self._has_references and self.rest in self._types(found):
            yield Finding("field-conflict", f"{self.rest!r} is a field already", ("rest",))

    def _check_types(self, found: Dissection) -> Iterable[Finding]:
        keys = _fields(found.keys)
        for name in self.declared:
            if name not in keys and not self._has_references:
                hint = nearest(name, keys) or f"keys are {', '.join(keys)}"
                yield Finding("unknown-field", f"the pattern has no key {name!r}", ("fields", name), hint)
        for name, type_ in self._types(found).items():
            yield from check_type(
                name, format_type(type_), make_reader, ("fields", name) if name in self.declared else ("pattern",)
            )

    def parsed_fields(self) -> Schema:
        """The keys in order, then declared names, then ``rest``."""
        found = dissection(self.pattern)
        if isinstance(found, PatternError):
            return pa.schema([])
        rest = {self.rest: pa.string()} if self._has_references else {}
        return pa.schema(list((self._types(found) | rest).items()))

    def compile(self) -> Callable[[pa.StringArray], Parsed]:
        """One pattern over the whole column."""
        found = dissection(self.pattern)
        if isinstance(found, PatternError):
            raise found
        plan = plan_scan(found, self.append_separator)
        scanner = Scanner([plan.tree])
        types = self._types(found)
        readers = {name: make_reader(type_) for name, type_ in types.items()}
        named = [name for name in types if name not in plan.fields]
        trimmed = _trimmer(self.trim)
        reason = f"does not match {self.pattern!r}"

        def parse(text: pa.Array) -> Parsed:
            scan = scanner.scan(text)
            captures = {name: trimmed(empty_where(column, scan.pattern >= 0)) for name, column in scan.captures.items()}
            columns = {name: _join(captures, pieces) for name, pieces in plan.fields.items()}
            if plan.references:
                columns |= self._reference_columns(captures, plan.references, named)
            failures = Failures(scan.unmatched, reason)
            for name, read in readers.items():
                values, wrong = read(columns[name] if types[name] == pa.string() else _trimmer("both")(columns[name]))
                if wrong is not None:
                    failures.add(wrong, wrong_values(name, columns[name], wrong, format_type(types[name])))
                columns[name] = values
            return failures.to_parsed(columns)

        return parse

    def _reference_columns(
        self, captures: Mapping[str, pa.Array], references: Sequence[tuple[list[FieldPiece], str]], named: Sequence[str]
    ) -> dict[str, pa.Array]:

        pairs = [(_plain(_join(captures, pieces)), _plain(captures[value])) for pieces, value in references]
        return reference_columns(pairs, named, self.rest)

    @property
    def _has_references(self) -> bool:
        found = dissection(self.pattern)
        return not isinstance(found, PatternError) and any(key.kind == "value" for key in found.keys)

    def _types(self, found: Dissection) -> dict[str, pa.DataType]:
        """Fields and their types, without ``rest``; a type in ``fields`` wins over one in the pattern."""
        keys = {name: key.type or "string" for name, key in _fields(found.keys).items()}
        extra = self.declared if any(key.kind == "value" for key in found.keys) else {}
        return {name: parse_type(self.declared.get(name, type_)) for name, type_ in (keys | dict(extra)).items()}


def _trimmer(side: str) -> Callable[[pa.Array], pa.Array]:
    """Cuts blanks off texts."""
    if side == "none":
        return lambda texts: texts
    cut = {"left": pc.utf8_ltrim, "right": pc.utf8_rtrim, "both": pc.utf8_trim}[side]
    return lambda texts: cut(_plain(texts), characters=" ")


def _fields(keys: Sequence[Key]) -> dict[str, Key]:
    """Name → its last key with a type, or its last one."""
    found: dict[str, Key] = {}
    for key in keys:
        if key.kind in ("field", "append") and (key.type or key.name not in found or not found[key.name].type):
            found[key.name] = key
    return found


def _join(captures: Mapping[str, pa.Array], pieces: Sequence[FieldPiece]) -> pa.Array:
    """Pieces as one text; a single one stays a view."""
    if len(pieces) == 1:
        return captures[pieces[0].capture]
    parts: list[pa.Array | str] = [_plain(captures[pieces[0].capture])]
    for piece in pieces[1:]:
        parts += [piece.joint, _plain(captures[piece.capture])]
    return pc.binary_join_element_wise(*parts, "")


def _plain(texts: pa.Array) -> pa.StringArray:
    return materialize_array(texts).cast(pa.string())


Pair: TypeAlias = tuple[pa.StringArray, pa.StringArray]
"""A name and a value for each row; both null where there is none."""

_NEEDS_ESCAPE = r'["\\\x00-\x1f]'


def reference_columns(pairs: Sequence[Pair], declared: Sequence[str], rest: str) -> dict[str, pa.Array]:
    """A column for each declared name (of a repeated name the last value), and the others as JSON, null where there are none."""
    columns = {name: reduce(lambda found, pair: _choose(found, pair, name), pairs, _nulls(pairs)) for name in declared}
    members = [_member(pair, declared) for pair in pairs]
    joined = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*members, ""), 1)
    objects = pc.binary_join_element_wise("{", pc.if_else(pc.equal(joined, ""), None, joined), "}", "")
    return columns | {rest: objects}


def _nulls(pairs: Sequence[Pair]) -> pa.StringArray:
    return pa.nulls(len(pairs[0][0]), pa.string())


def _choose(found: pa.StringArray, pair: Pair, name: str) -> pa.StringArray:
    mine = pc.fill_null(pc.equal(pair[0], name), False)
    return pc.if_else(mine, pair[1], found)


def _member(pair: Pair, declared: Sequence[str]) -> pa.StringArray:
    """``,"name":"value"``, empty for declared names."""
    names, values = pair
    left = pc.if_else(pc.is_in(names, value_set=pa.array(declared, pa.string())), None, names)
    return pc.fill_null(pc.binary_join_element_wise(',"', _escape(left), '":"', _escape(values), '"', ""), "")


def _escape(texts: pa.StringArray) -> pa.StringArray:
    """The inside of a JSON string. The few texts that need escapes are written one by one."""
    needy = pc.match_substring_regex(texts, _NEEDS_ESCAPE)
    if not pc.any(needy).as_py():
        return texts
    written = [json.dumps(text, ensure_ascii=False)[1:-1] for text in texts.filter(needy).to_pylist()]
    return pc.replace_with_mask(texts, pc.fill_null(needy, False), pa.array(written, pa.string()))
