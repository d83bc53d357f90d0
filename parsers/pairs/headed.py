"""Events of a header between bars and pairs behind it: CEF and LEEF."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from etl.api import Parsed, Schema
from parsers.common.failures import Failures
from parsers.common.text_types import Read
from parsers.pairs.pairs import Pairs
from parsers.pairs.parser import PairsParser
from parsers.timestamp.event_times import event_times

Cut: TypeAlias = Callable[[pa.Array], tuple[list[pa.Array], Pairs, Failures]]
"""Texts → the fields of their headers, their pairs, and what has failed."""

TIMES = (
    "epoch_millis",
    "MMM d yyyy HH:mm:ss[.SSS][ zzz]",
    "MMM d yyyy HH:mm:ss[.SSS] 'GMT'XXX",
    "MMM d HH:mm:ss[.SSS][ zzz]",
    "iso8601",
)
"""How CEF writes times, and LEEF usually."""


class HeadedPairsParser(PairsParser):
    """A subclass says what the header's fields are called (`header_names`) and how events are cut (`cutting`)."""

    def header_names(self) -> Sequence[str]:
        """Fields of the header, in its order."""
        raise NotImplementedError

    def cutting(self) -> Cut:
        """How events are cut."""
        raise NotImplementedError

    def headers(self) -> Schema:
        """The fields of the header, all of them text."""
        return pa.schema([(name, pa.string()) for name in self.header_names()])

    def read(self, type_: pa.DataType) -> Read:
        """As everywhere, but with the usual times of such events."""
        return event_times(type_, TIMES)

    def compile(self) -> Callable[[pa.StringArray], Parsed]:
        """All events of the whole column."""
        columns, names, cut = self.columns(), self.header_names(), self.cutting()

        def parse(texts: pa.Array) -> Parsed:
            header, pairs, failures = cut(texts)
            found: dict[str, Any] = dict(zip(names, header, strict=True))
            return failures.parsed(found | columns(pairs, failures))

        return parse
