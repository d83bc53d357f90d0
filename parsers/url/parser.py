"""The parser `url`: the parts of URLs and of what requests ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from etl.api import ComponentError, FieldName, Finding, Parsed, Parser, Schema, TypeName, nested_schema, parse_type
from etl.columns.texts import owned_array
from etl.scanner.scanner import Scanner
from parsers.common.view_values import null_where, truth
from parsers.url.patterns import trees
from parsers.url.query import Parameters, percent_decoded, unreadable
from parsers.url.suffixes import Suffixes

MOST_PORT = 65_535

PARTS = ("scheme", "username", "password", "domain", "port", "path", "extension", "query", "fragment")
"""In ECS's words, as the patterns capture them; ``password`` only where it is asked for."""

DECODED = ("path", "extension", "query", "fragment")
"""Parts in which percent signs may be decoded."""

DOMAIN_PARTS = ("registered_domain", "subdomain", "top_level_domain")

_PASSWORD = r"^([A-Za-z][A-Za-z0-9+.\-]+://[^/?#@:\\]*:)[^/?#\\]*@"
_HIDDEN = r"\1***@"


@cache
def _scanner() -> Scanner:
    """Made once a process: a worker opens the step in every micro-batch."""
    return Scanner(trees())


class Url(Parser):
    """Take URLs apart into the ``url.*`` fields of ECS.

    These are ``original``, ``scheme``, ``username``, ``domain``, ``port`` (a number, where one is written), ``path``,
    ``extension`` (of the path, without its dot), ``query`` and ``fragment`` (without ``?`` and ``#``), under ``target``;
    what is missing or empty is null. Scheme and domain are in lower case, the other parts as they were written. The
    text may be a URL, a request's target (``/path?query``; two slashes at its beginning are a path, too), or a host
    with or without port, as proxies write it (``example.com:443``). Anything else fails, and so does a port beyond
    65,535. A null text gives nulls.

    A password becomes ``***`` in ``original``, unless ``userinfo: keep`` asks for it, which also gives ``password``.
    With the file of public suffixes that publicsuffix.org publishes, ``registered_domain``, ``subdomain`` and
    ``top_level_domain`` are told apart.

    ``fields`` are parameters of the query, with percent signs and plus signs decoded: the first of a name, or all for
    an array. One that does not fit its type is null, for anybody can send anything, and is still in ``query``. ``rest``
    gets the others as one JSON object, with an array for a name that comes twice; null when there is none.

    ```yaml
    type: url
    field: url.original
    fields: {search_term: string, page: int}
    paths: {search_term: q}
    rest: labels
    ```
    """

    takes_views: ClassVar[bool] = True

    type: Literal["url"] = "url"
    field: FieldName = Field(default="url.original", description="The field to parse.")
    target: FieldName = Field(default="url", description="The object that gets the parts.")
    userinfo: Literal["hide", "keep"] = Field(default="hide", description="Whether passwords in URLs are hidden or kept.")
    public_suffixes: str | None = Field(
        default=None,
        min_length=1,
        description="File of public suffixes, to tell registered domains.",
        examples=["/usr/share/publicsuffix/public_suffix_list.dat"],
    )
    decode: bool = Field(
        default=False, description="Decode percent signs in path, extension, query and fragment, as Elasticsearch does."
    )
    declared: dict[FieldName, TypeName] = Field(
        default={},
        alias="fields",
        description="Parameters of the query to read, and their Spark SQL types.",
        examples=[{"page": "int", "tag": "array<string>"}],
    )
    paths: dict[FieldName, str] = Field(
        default={}, description="The parameter's name, where it is not that of the field.", examples=[{"search_term": "q"}]
    )
    rest: FieldName | None = Field(default=None, description="Text field for the JSON of parameters that are not declared.")

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Beside the input field: types that no parameter fills, names that contradict each other, a file that is missing."""
        yield from super().check(incoming)
        yield from _bad_types(self.declared)
        for name in self.paths:
            if name not in self.declared:
                yield Finding("unknown-field", f"{name!r} is not among the fields", ("paths", name), "declare it under fields")
        own = [self.rest] if self.rest is not None else []
        names = [*self._parts.values(), *self.declared, *own]
        try:
            nested_schema(pa.schema([(name, pa.string()) for name in names]))
        except ValueError as error:
            yield Finding("field-conflict", str(error), ("fields",))
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield Finding("field-conflict", f"{name!r} is a field of the URL already", ("rest" if name in own else "fields",))
        if self.on_error == "keep" and self.declared.get(self.field, "string") != "string":
            message = f"field {self.field!r} cannot hold {self.declared[self.field]} in one event and its text in another"
            yield Finding("keep-conflict", message, ("on_error",))
        try:
            self._suffixes()
        except (OSError, ValueError) as error:
            message = f"file of public suffixes {self.public_suffixes!r} cannot be read: {error}"
            yield Finding("unreadable-file", message, ("public_suffixes",))

    def parsed(self) -> Schema:
        """The parts, then the parameters."""
        parts = [(name, pa.int64() if part == "port" else pa.string()) for part, name in self._parts.items()]
        parameters = [(name, parse_type(text)) for name, text in self.declared.items()]
        return pa.schema([*parts, *parameters, *([(self.rest, pa.string())] if self.rest is not None else [])])

    def compile(self) -> Callable[[pa.StringArray], Parsed]:
        """The patterns over the whole column; parameters from the queries found."""
        scanner = _scanner()
        try:
            suffixes = self._suffixes()
        except (OSError, ValueError) as error:
            raise ComponentError(f"file of public suffixes {self.public_suffixes!r} cannot be read: {error}") from error
        types = {self.paths.get(name, name): (name, parse_type(text)) for name, text in self.declared.items()}
        parameters = Parameters(types, self.rest) if types or self.rest is not None else None

        def parse(texts: pa.Array) -> Parsed:
            texts = texts.cast(pa.string()) if texts.type == pa.null() else texts
            found = scanner.scan(texts)
            parts: dict[str, pa.Array] = {"original": texts, **_finished(found.captures)}
            query = parts["query"]
            if self.decode:
                parts |= {part: percent_decoded(owned_array(parts[part])) for part in DECODED}
            failed = _failed(texts, found.pattern, parts["port"])
            if self.userinfo == "hide":
                parts["original"] = _hidden(texts, found.captures["password"])
            if suffixes is not None:
                parts |= suffixes.columns(parts["domain"])
            columns = {name: parts[part] for part, name in self._parts.items()}
            if parameters is not None:
                columns |= parameters.columns(query)
            if failed is not None:
                columns = {name: null_where(column, truth(failed)) for name, column in columns.items()}
            return Parsed(columns, failed, "is no URL")

        return parse

    @property
    def _parts(self) -> dict[str, str]:
        """Part → field, in order."""
        hidden = {"password"} if self.userinfo == "hide" else set()
        domain = DOMAIN_PARTS if self.public_suffixes is not None else ()
        return {part: f"{self.target}.{part}" for part in ("original", *PARTS, *domain) if part not in hidden}

    def _suffixes(self) -> Suffixes | None:
        return None if self.public_suffixes is None else Suffixes.read(self.public_suffixes)


def _bad_types(declared: Mapping[str, str]) -> Iterable[Finding]:
    for name, text in declared.items():
        if reason := unreadable(parse_type(text)):
            yield Finding("unreadable-type", f"field {name!r} is {text}: {reason}", ("fields", name))


def _finished(captures: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    from etl.columns.numbers import whole_numbers

    parts = {part: captures[part] for part in PARTS}
    lower = {part: pc.utf8_lower(owned_array(captures[part])) for part in ("scheme", "domain")}
    return parts | lower | {"port": whole_numbers(captures["port"])}


def _failed(texts: pa.Array, pattern: Any, port: pa.Int64Array) -> pa.BooleanArray | None:
    """Where no pattern matched, a text is empty or a port too large; a null text is none of these."""
    import numpy as np

    from etl.columns.texts import Texts

    length = Texts.of(texts).length
    failed = (length >= 0) & ((pattern < 0) | (length == 0) | np.asarray(pc.fill_null(pc.greater(port, MOST_PORT), False)))
    return pa.array(failed) if failed.any() else None


def _hidden(texts: pa.Array, passwords: pa.Array) -> pa.Array:
    """The texts with stars for passwords; the same object where there is none, which is nearly always."""
    if passwords.null_count == len(passwords):
        return texts
    plain = owned_array(texts)
    hidden = pc.replace_substring_regex(plain, _PASSWORD, _HIDDEN, max_replacements=1)
    return pc.if_else(passwords.is_valid(), hidden, plain)
