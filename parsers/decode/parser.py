"""The parser `decode`: encoded texts → the text they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from etl.api import FieldName, Finding, Parsed, Parser, Schema, Size
from etl.columns.texts import materialize_array
from etl.scanner.engines import decode_texts, encode_texts
from etl.scanner.pattern_error import PatternError
from etl.scanner.regex_printer import format_regex
from etl.scanner.syntax import parse
from etl.scanner.tree import Node, captures
from parsers.decode.charsets import Invalid, codec, make_charset_reader
from parsers.decode.encodings import decompress, make_decoder


class Decode(Parser):
    r"""Decode a text: from an encoding to bytes, from a compression if there is one, from a character set to text.

    Encodings: ``base64`` and ``base64url`` (RFC 4648, with or without padding, white space passed over), ``hex`` (with
    or without ``0x``, blanks, colons and hyphens between bytes), ``percent`` (``%41``; RFC 3986) and ``form``
    (the same, and a plus is a blank), ``escapes`` (``\x41 \n \t \\ \"``, as nginx, Apache and systemd write bytes) and
    ``latin1``: each character stands for the byte of its number; ``byte_array``: the numbers of the bytes as a JSON array,
    ``[72,105]``, as journald writes what is not plain text. A percent sign or backslash that begins no escape stays.

    ``charset`` says how those bytes are to be read: any of Python's character sets, such as ``gbk``, ``shift_jis``,
    ``cp1252`` or ``utf-16-le``. Text in a pipeline is Unicode already, for the source decoded it (see the option
    ``charset`` of the source ``file``), and what a source replaced by U+FFFD is lost. For a file that mixes character
    sets, let the source read ``latin-1``, which keeps every byte, and decode fields with ``encoding: latin1`` here.

    ``within`` decodes parts of a text: what the pattern's one capture holds, wherever it matches. The rest, and a part
    that cannot be decoded, stay as they are. Such texts are read one by one.

    A text that is not in its encoding, bytes that the character set does not have (unless ``invalid`` says otherwise) and
    what is longer than ``max_bytes`` fail; a null text gives null.

    ```yaml
    type: decode
    field: process.encoded_command
    encoding: base64
    charset: utf-16-le
    ```
    """

    takes_views: ClassVar[bool] = True

    type: Literal["decode"] = "decode"
    encoding: Literal["base64", "base64url", "hex", "percent", "form", "escapes", "latin1", "byte_array"] = Field(
        description="How the text stands for bytes."
    )
    compression: Literal["none", "gzip", "zlib", "deflate"] = Field(default="none", description="How those bytes are compressed.")
    charset: str = Field(
        default="utf-8",
        min_length=1,
        description="Character set of the bytes, by its name in Python.",
        examples=["gbk", "utf-16-le"],
    )
    invalid: Invalid = Field(
        default="fail",
        description="Whether bytes that the character set does not have fail, become U+FFFD, or are escaped (``\\xf0``).",
    )
    max_bytes: Size = Field(default=1 << 20, ge=1, description="Maximum size of a decompressed text.", examples=["64KiB"])
    within: str | None = Field(
        default=None,
        min_length=1,
        description="Pattern whose one capture is what is decoded, wherever it matches; none means the whole text.",
        examples=[r"\barg=(?<hex>[0-9A-F]{2,})\b"],
    )
    target: FieldName | None = Field(default=None, description="The field that gets the text; none means the field itself.")

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """The input field, a character set that does not exist, a pattern that is none."""
        yield from super().check(incoming)
        try:
            _part_pattern(self.within or "(?<all>)")
        except ValueError as error:
            yield Finding("bad-regex", str(error), ("within",))
        try:
            codec(self.charset)
        except ValueError as error:
            yield Finding("unknown-charset", str(error), ("charset",))

    def parsed_fields(self) -> Schema:
        """The decoded text."""
        return pa.schema([(self._target, pa.string())])

    def compile(self) -> Callable[[pa.StringArray], Parsed]:
        """Encoding, compression, character set, each over the whole column."""
        whole = self._whole()
        if self.within is None:
            return whole
        replace = _part_decoder(_part_pattern(self.within), lambda parts: whole(parts).columns[self._target])
        return lambda texts: Parsed({self._target: replace(texts)})

    def _whole(self) -> Callable[[pa.StringArray], Parsed]:
        decode, read = make_decoder(self.encoding), make_charset_reader(codec(self.charset), self.invalid)

        def parse(texts: pa.Array) -> Parsed:
            data, reasons = decode(texts)
            if self.compression != "none":
                data, more = decompress(data, self.compression, self.max_bytes)
                reasons = _first(reasons, more)
            decoded = read(data)
            if decoded.null_count > data.null_count:
                unreadable = pc.and_(pc.is_null(decoded), pc.is_valid(data))
                reasons = _first(reasons, pc.if_else(unreadable, f"is not {self.charset}", None))
            columns = {self._target: decoded.cast(pa.string())}
            return Parsed(columns) if reasons is None else Parsed(columns, reasons.is_valid(), reasons)

        return parse

    @property
    def _target(self) -> str:
        return self.target or self.field


def _first(reasons: pa.StringArray | None, more: pa.StringArray | None) -> pa.StringArray | None:
    if reasons is None or more is None:
        return more if reasons is None else reasons
    return pc.coalesce(reasons, more)


# ── Parts of texts ────────────────────────────────────────────────────────────────────────────────


def _part_pattern(text: str) -> str:
    """The expression for the package ``regex``, whose group holds the part. Raises ValueError."""

    def unknown(name: str, at: int) -> Node:
        raise PatternError(f"no pattern is called {name!r} here", at)

    try:
        tree = parse(text, unknown)
    except PatternError as error:
        raise ValueError(str(error)) from None
    if (found := len(captures(tree))) != 1:
        raise ValueError(f"one capture, such as (?<part>.*), says what is decoded, and there are {found}")
    return format_regex(tree, backtracking=True)


def _part_decoder(pattern: str, decode: Callable[[pa.StringArray], pa.StringArray]) -> Callable[[pa.Array], pa.StringArray]:
    """A column → the same with what the pattern captures decoded; a part that ``decode`` makes null stays."""
    import regex

    compiled = regex.compile(pattern, regex.VERSION1)

    def replace(texts: pa.Array) -> pa.StringArray:
        """A loop over texts: their parts are decoded as one column."""
        rows = list(decode_texts(materialize_array(texts)))
        found = [[] if row is None else [match.span(1) for match in compiled.finditer(row) if match[1]] for row in rows]
        parts = encode_texts(row[start:end] for row, spans in zip(rows, found, strict=True) for start, end in spans if row)
        decoded = decode_texts(pc.coalesce(decode(parts), parts))
        return encode_texts(_join(row, spans, decoded) for row, spans in zip(rows, found, strict=True))

    return replace


def _join(text: str | None, spans: list[tuple[int, int]], decoded: Iterator[str | None]) -> str | None:
    """The text with the next decoded parts in place of these spans."""
    if text is None:
        return None
    pieces: list[str] = []
    at = 0
    for start, end in spans:
        pieces += [text[at:start], next(decoded) or ""]
        at = end
    return "".join([*pieces, text[at:]])
