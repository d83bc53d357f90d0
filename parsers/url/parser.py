"""The parser `url`: the parts of URLs and of request targets.

Source of the patterns: RFC 3986, and where it would mislead what browsers do (WHATWG URL): a backslash ends a domain. Logs also
have request targets (``/path?query``, ``*``; RFC 9112, 3.2) and addresses without a scheme (``example.com:443``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from etl.api import ComponentError, FieldName, Finding, Parsed, Parser, Schema, TypeName, nested_schema, parse_type
from etl.columns.text_layout import boolean_values
from etl.columns.texts import materialize_array
from etl.scanner.pattern_error import PatternError
from etl.scanner.scanner import Scanner
from parsers.common.field_checks import check_type, undeclared_fields
from parsers.common.text_types import item_reader
from parsers.common.view_values import null_where
from parsers.grok.compiler import compile_pattern
from parsers.url.public_suffixes import PublicSuffixes
from parsers.url.query_parameters import Parameters, decode_percent

MAX_PORT = 65_535

PARTS = ("scheme", "username", "password", "domain", "port", "path", "extension", "query", "fragment")
"""Names of ECS, which are the captures of the patterns; ``password`` is a field only with ``userinfo: keep``."""

DECODED = ("path", "extension", "query", "fragment")
"""Parts in which percent signs may be decoded."""

DOMAIN_PARTS = ("registered_domain", "subdomain", "top_level_domain")

_PASSWORD = r"^([A-Za-z][A-Za-z0-9+.\-]+://[^/?#@:\\]*:)[^/?#\\]*@"
_HIDDEN = r"\1***@"


_SCHEME = r"(?<scheme>[A-Za-z][A-Za-z0-9+.\-]+):"
_USER = r"(?:(?<username>[^/?#@:\\]*)(?::(?<password>[^/?#\\]*))?@)?"
_NUMERIC = r"\[[0-9A-Za-z:.%_\-]+\]"
_PORT = r"(?::(?<port>[0-9]{0,5}))?"
_EXTENSION = r"(?:\.(?<extension>[^?#./\\]+))?"
_PATH = rf"(?<path>(?:[/\\][^?#]*?{_EXTENSION})?)"
_QUERY_AND_FRAGMENT = r"(?:\?(?<query>[^#]*))?(?:#(?<fragment>.*))?\z"

_PATTERNS = (
    rf"\A{_SCHEME}//{_USER}(?<domain>{_NUMERIC}|[^/?#:@\[\]\\\s]*){_PORT}{_PATH}{_QUERY_AND_FRAGMENT}",
    rf"\A(?<path>/[^?#]*?{_EXTENSION}|\*)?{_QUERY_AND_FRAGMENT}",
    rf"\A(?<domain>{_NUMERIC}|[A-Za-z0-9_\-]+(?:\.[A-Za-z0-9_\-]+)+\.?|localhost){_PORT}{_PATH}{_QUERY_AND_FRAGMENT}",
    rf"\A{_SCHEME}(?<path>/?[^/?#\s][^?#\s]*){_QUERY_AND_FRAGMENT}",
)
"""With a scheme and a host; a request's target; a host alone; a scheme without a host (``mailto:``, ``urn:``)."""


@cache
def _scanner() -> Scanner:
    """Made once a process: a worker opens the step in every micro-batch."""
    trees = [compile_pattern(pattern, None, frozenset(), False) for pattern in _PATTERNS]
    return Scanner([tree for tree in trees if not isinstance(tree, PatternError)])


class Url(Parser):
    """Take URLs apart into the ``url.*`` fields of ECS.

    These are ``original``, ``scheme``, ``username``, ``domain``, ``port`` (a number, where one is written), ``path``,
    ``extension`` (of the path, without its dot), ``query`` and ``fragment`` (without ``?`` and ``#``), under ``target``;
    what is missing or empty is null. Scheme and domain are in lower case, the other parts as they were written. The
    text may be a URL, a request's target (``/path?query``; two slashes at its beginning are a path, too), or a host
    with or without port, as proxies write it (``example.com:443``). Anything else fails, and so does a port beyond
    65,535. A null text gives nulls.

    A password becomes ``***`` in ``original``; with ``userinfo: keep`` it stays, and is the field ``password`` as well. The
    file of public suffixes of publicsuffix.org adds ``registered_domain``, ``subdomain`` and ``top_level_domain``.

    ``fields`` are parameters of the query, with percent signs and plus signs decoded: the first of a name, or all for
    an array. A value that does not fit its type is null and is still in ``query``, because clients can send anything. ``rest``
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
        description="File of public suffixes, to find registered domains.",
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
        """The findings of every parser; types that no parameter fills, names that contradict each other, a missing file."""
        yield from super().check(incoming)
        for name, type_text in self.declared.items():
            yield from check_type(name, type_text, item_reader)
        yield from undeclared_fields(self.declared, self.paths)
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

    def parsed_fields(self) -> Schema:
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
            parts: dict[str, pa.Array] = {"original": texts, **_convert_parts(found.captures)}
            query = parts["query"]
            if self.decode:
                parts |= {part: decode_percent(materialize_array(parts[part])) for part in DECODED}
            failed = _failed_rows(texts, found.pattern, parts["port"])
            if self.userinfo == "hide":
                parts["original"] = _hide_passwords(texts, found.captures["password"])
            if suffixes is not None:
                parts |= suffixes.columns(parts["domain"])
            columns = {name: parts[part] for part, name in self._parts.items()}
            if parameters is not None:
                columns |= parameters.columns(query)
            if failed is not None:
                columns = {name: null_where(column, boolean_values(failed)) for name, column in columns.items()}
            return Parsed(columns, failed, "is not a URL")

        return parse

    @property
    def _parts(self) -> dict[str, str]:
        """Part → field, in order."""
        hidden = {"password"} if self.userinfo == "hide" else set()
        domain = DOMAIN_PARTS if self.public_suffixes is not None else ()
        return {part: f"{self.target}.{part}" for part in ("original", *PARTS, *domain) if part not in hidden}

    def _suffixes(self) -> PublicSuffixes | None:
        return None if self.public_suffixes is None else PublicSuffixes.read(self.public_suffixes)


def _convert_parts(captures: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    from etl.columns.numbers import whole_numbers

    parts = {part: captures[part] for part in PARTS}
    lower = {part: pc.utf8_lower(materialize_array(captures[part])) for part in ("scheme", "domain")}
    return parts | lower | {"port": whole_numbers(captures["port"])}


def _failed_rows(texts: pa.Array, pattern: Any, port: pa.Int64Array) -> pa.BooleanArray | None:
    """Rows that fail: no pattern matched, the text is empty or the port too large; a null text does not fail."""
    import numpy as np

    from etl.columns.texts import Texts

    length = Texts.of(texts).length
    failed = (length >= 0) & ((pattern < 0) | (length == 0) | np.asarray(pc.fill_null(pc.greater(port, MAX_PORT), False)))
    return pa.array(failed) if failed.any() else None


def _hide_passwords(texts: pa.Array, passwords: pa.Array) -> pa.Array:
    """The texts with stars for passwords; the same object where there is none, which is nearly always."""
    if passwords.null_count == len(passwords):
        return texts
    plain = materialize_array(texts)
    hidden = pc.replace_substring_regex(plain, _PASSWORD, _HIDDEN, max_replacements=1)
    return pc.if_else(passwords.is_valid(), hidden, plain)
