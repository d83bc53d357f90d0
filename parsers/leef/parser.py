"""The parser `leef`: IBM's Log Event Extended Format."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from pydantic import Field

from etl.api import FieldName, Finding, Schema
from parsers.leef.names import Naming, headers, key_names
from parsers.pairs.header_parser import CutEvents, HeaderPairsParser

_CODE = re.compile(r"0?[xX]([0-9A-Fa-f]{1,4})")


class Leef(HeaderPairsParser):
    r"""Read events in the Log Event Extended Format, 1.0 and 2.0: ``LEEF:2.0|vendor|product|1|id|^|src=::1^sev=5``.

    The header gives the text fields ``leef.version``, ``observer.vendor``, ``observer.product``, ``observer.version`` and
    ``event.code``; the text before ``LEEF:``, such as a header of syslog, is ``log.syslog.header``. Undeclared
    attributes go to ``rest`` as one JSON object.

    Attributes are separated by a tab; an event of version 2.0 may name another character after its id, as it is or by its
    number (``^``, ``x5E``, ``0x5E``), and leaves that field empty or out for a tab. A value goes from the first ``=`` to the
    delimiter. Text between two delimiters without ``=`` is a key that is true.

    ``naming: ecs`` calls attributes by the fields of ECS where it has one (``usrName`` is ``user.name``), ``written`` as the
    event does. A declared ``timestamp`` reads milliseconds since 1970, ``Sep 07 2018 14:50:39.127 UTC`` and ISO 8601, in UTC
    where they name no zone; for times in the format of ``devTimeFormat`` declare text.

    An event fails when its header is incomplete, when a line breaks inside it, or when a value does not fit its declared
    type. An empty value is null for any type but text.

    ```yaml
    type: leef
    fields:
      "@timestamp": timestamp
      source.ip: string
      user.name: string
      event.severity: int
    rest: leef.attributes
    ```
    """

    type: Literal["leef"] = "leef"
    rest: FieldName | None = Field(
        default="leef.attributes", description="Text field for the JSON of the attributes that are not declared; none drops them."
    )
    naming: Naming = Field(default="ecs", description="What fields are called: as in ECS, or as written in the event.")
    delimiter: str | None = Field(
        default=None,
        min_length=1,
        description="Character between attributes, or its number such as `x5E`, whatever the events say.",
        examples=["^", "x09"],
    )

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """The findings of all parsers of pairs, and a delimiter that is none."""
        yield from super().check(incoming)
        if self.delimiter is not None and not self._character():
            message = f"{self.delimiter!r} is not a delimiter: it is one character, or its number such as 'x5E' or '0x09'"
            yield Finding("bad-delimiter", message, ("delimiter",))

    def key_to_field(self) -> Callable[[str], str | None]:
        """Keys in the names of the option ``naming``."""
        return key_names(self.naming)

    def header_names(self) -> Sequence[str]:
        """The five fields of the header."""
        return headers(self.naming)

    def compile_cut(self) -> CutEvents:
        """Headers are cut at bars, attributes at the delimiter."""
        from parsers.leef.attributes import compile_cut

        return compile_cut(self._character())

    def _character(self) -> str:
        """The delimiter of the option, empty for none."""
        if self.delimiter is None or len(self.delimiter) == 1:
            return self.delimiter or ""
        code = _CODE.fullmatch(self.delimiter)
        return chr(int(code[1], 16)) if code else ""
