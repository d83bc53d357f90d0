"""What CEF and LEEF share: a header whose fields `|` separates, pairs after it, and time formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from etl.api import Parsed, Schema
from parsers.common.failures import Failures
from parsers.common.text_types import TextReader, make_reader
from parsers.pairs.pair_columns import Pairs
from parsers.pairs.parser import PairsParser

CutEvents: TypeAlias = Callable[[pa.Array], tuple[list[pa.Array], Pairs, Failures]]
"""Texts → the fields of their headers, their pairs, and what has failed."""

TIMES = (
    "epoch_millis",
    "MMM d yyyy HH:mm:ss[.SSS][ zzz]",
    "MMM d yyyy HH:mm:ss[.SSS] 'GMT'XXX",
    "MMM d HH:mm:ss[.SSS][ zzz]",
    "iso8601",
)
"""How CEF writes times, and LEEF usually."""


class HeaderPairsParser(PairsParser):
    """Events with a header and pairs. A subclass names the header's fields (`header_names`) and cuts events (`compile_cut`)."""

    def header_names(self) -> Sequence[str]:
        """Fields of the header, in its order."""
        raise NotImplementedError

    def compile_cut(self) -> CutEvents:
        """A function of a column of events."""
        raise NotImplementedError

    def header_schema(self) -> Schema:
        """The fields of the header, all of them text."""
        return pa.schema([(name, pa.string()) for name in self.header_names()])

    def text_reader(self, type_: pa.DataType) -> TextReader:
        """Return the same function, with the time formats of CEF and LEEF."""
        return make_reader(type_, time_formats=TIMES)

    def compile(self) -> Callable[[pa.StringArray], Parsed]:
        """A function of a column: headers and pairs of all its events."""
        columns, names, cut = self.columns(), self.header_names(), self.compile_cut()

        def parse(texts: pa.Array) -> Parsed:
            header, pairs, failures = cut(texts)
            found: dict[str, Any] = dict(zip(names, header, strict=True))
            return failures.to_parsed(found | columns(pairs, failures))

        return parse
