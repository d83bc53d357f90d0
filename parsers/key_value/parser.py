"""The parser `key_value`: ``key=value`` pairs in all their spellings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field, model_validator

from etl.api import Finding, Parsed, Schema
from etl.scanner.pattern_error import PatternError
from parsers.key_value.transforms import Case, compile_changes, compile_names
from parsers.pairs.parser import PairsParser
from parsers.pairs.separators import compile_separators

PRESETS: dict[str, dict[str, Any]] = {
    "logfmt": {
        "pair_pattern": r"[\x00- ]+",
        "whitespace": "strict",
        "quotes": '"',
        "escapes": "json",
    }
}
"""Options that a preset sets unless the pipeline does."""

Character = Annotated[str, Field(min_length=1)]
Ascii = r"^[!-/:-@\[-`{-~]*$"
"""ASCII punctuation."""
ASCII_WORDS: dict[str, Any] = {"patternErrorMessage": "has other characters than ASCII punctuation such as ' \" ( ) [ ] < >"}


class KeyValue(PairsParser):
    """Read pairs such as ``key=value key="quoted value"`` and take the declared keys as fields.

    Undeclared keys go to the text field ``rest`` as one JSON object, with the values as text and ``true`` for a key that stands
    alone. Names are those of the text, with dots as they are: ``source.ip=::1`` fills the field
    ``source.ip``.

    A value ends at the next separator of pairs; in quotes or brackets it may hold separators, and brackets may be nested.
    A quote or bracket counts only where it is closed and a separator or the end of the text follows; else it is a character
    like any other. With ``whitespace: lenient`` blanks may stand around the separator of key and value, so that an empty value
    before a blank takes the next word: ``a= b=1`` is ``b=1`` under ``a``; ``strict`` reads two pairs. Blanks around
    a pair never count. A separator is at most 256 bytes long.

    ``preset: logfmt`` reads what Heroku and many Go programs write: pairs are separated by white space, values quoted with
    ``"`` and the escapes of JSON, and keys that stand alone are true.

    An event fails when it has fewer than ``min_pairs`` pairs, when a key stands alone and ``alone`` is ``reject``, or when a
    value does not fit its declared type. An empty value is null for any type but text.

    ```yaml
    type: key_value
    preset: logfmt
    fields:
      level: string
      status: int
      duration: double
    rest: labels
    ```
    """

    type: Literal["key_value"] = "key_value"
    preset: Literal["logfmt"] | None = Field(
        default=None, description="A dialect that sets the options below where they are not given."
    )
    pair_separators: list[Character] = Field(
        default=[" "], min_length=1, description="Texts, any of which separates pairs.", examples=[["|"], [";", "&"]]
    )
    pair_pattern: str | None = Field(
        default=None, min_length=1, description="Regular expression of what separates pairs, in place of `pair_separators`."
    )
    value_separators: list[Character] = Field(
        default=["="], min_length=1, description="Texts, any of which separates a key and its value.", examples=[[":"]]
    )
    value_pattern: str | None = Field(
        default=None,
        min_length=1,
        description="Regular expression of what separates a key and its value, in place of `value_separators`.",
    )
    whitespace: Literal["lenient", "strict"] = Field(
        default="lenient", description="Whether blanks may stand around the separator of key and value."
    )
    quotes: str = Field(
        default="\"'",
        pattern=Ascii,
        json_schema_extra=ASCII_WORDS,
        description="Characters that quote a key or value; none with an empty text.",
    )
    brackets: list[Annotated[str, Field(pattern=Ascii, min_length=2, max_length=2, json_schema_extra=ASCII_WORDS)]] = Field(
        default=[], description="Pairs of characters that hold a value, taken off it.", examples=[["()", "[]", "<>"]]
    )
    escapes: Literal["none", "quotes", "json", "blanks"] = Field(
        default="quotes",
        description="What a backslash means: nothing, a quote or backslash in quotes, all escapes of JSON in quotes, or that "
        "a blank after it belongs to its key or value.",
    )
    alone: Literal["flag", "ignore", "reject"] = Field(
        default="flag", description="What a key without a value is: true, skipped, or an event that fails."
    )
    keep_empty: bool = Field(default=True, description="Keep pairs with an empty value.")
    nested: bool = Field(
        default=False, description="Read values that are pairs themselves, up to 5 levels deep: `a=(b=1)` is `a.b=1`."
    )
    min_pairs: int = Field(default=1, ge=0, le=1000, description="Fewest pairs with a value in an event that parses.")
    trim_keys: str = Field(default="", description="Characters taken off both ends of keys.", examples=["%+"])
    trim_values: str = Field(default="", description="Characters taken off both ends of values.", examples=["<>,"])
    remove_from_keys: str = Field(default="", description="Characters removed from keys wherever they stand.")
    remove_from_values: str = Field(default="", description="Characters removed from values wherever they stand.")
    key_case: Case | None = Field(default=None, description="The case that keys are given.")
    value_case: Case | None = Field(default=None, description="The case that values are given.")
    include: list[str] = Field(default=[], description="Keys to keep; none means all.")
    exclude: list[str] = Field(default=[], description="Keys to leave out.")
    prefix: str = Field(default="", description="Prefix of each key.", examples=["app."])

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, given: Any) -> Any:
        preset = given.get("preset") if isinstance(given, dict) else None
        return {**PRESETS.get(preset, {}), **given} if isinstance(preset, str) else given

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """The findings of all parsers of pairs, and separators that are none."""
        yield from super().check(incoming)
        for option in ("pair", "value"):
            yield from self._separator_findings(option)

    def key_to_field(self) -> Callable[[str], str | None]:
        """Keys trimmed, in the case of ``key_case``, chosen and prefixed."""
        return compile_names(self.trim_keys, self.remove_from_keys, self.key_case, self.include, self.exclude, self.prefix)

    def compile(self) -> Callable[[pa.StringArray], Parsed]:
        """A function of a column: all its pairs."""
        from parsers.key_value.pair_reader import compile_reader

        columns = self.columns()
        read = compile_reader(self)
        change = compile_changes(self.trim_values, self.remove_from_values, self.value_case)

        def parse(texts: pa.Array) -> Parsed:
            pairs, failures = read(texts)
            return failures.to_parsed(columns(change(pairs), failures))

        return parse

    def separators(self, option: str) -> list[list[int]]:
        """The separators of ``pair`` or ``value``. Raises PatternError."""
        return compile_separators(getattr(self, f"{option}_separators"), getattr(self, f"{option}_pattern"))

    def _separator_findings(self, option: str) -> Iterator[Finding]:
        pattern = getattr(self, f"{option}_pattern")
        try:
            self.separators(option)
        except PatternError as error:
            where = f"{option}_separators" if pattern is None else f"{option}_pattern"
            yield Finding(error.code, error.message, (where,), error.hint, at=error.at if pattern is not None else None)
