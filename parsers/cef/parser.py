"""The parser `cef`: ArcSight's Common Event Format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from pydantic import Field

from etl.api import FieldName
from parsers.cef.names import Naming, headers, key_names
from parsers.pairs.header_parser import CutEvents, HeaderPairsParser


class Cef(HeaderPairsParser):
    r"""Read events in the Common Event Format: ``CEF:0|vendor|product|version|id|name|severity|key=value key=value``.

    The header gives the text fields ``cef.version``, ``observer.vendor``, ``observer.product``, ``observer.version``,
    ``event.code``, ``cef.name`` and ``event.severity``; the text before ``CEF:``, such as a header of syslog, is
    ``log.syslog.header``. Undeclared extensions go to ``rest`` as one JSON object.

    ``naming: ecs`` calls extensions by the fields of ECS (``src`` is ``source.ip``), ``full`` by the names of the CEF
    dictionary (``sourceAddress``, and in the header ``deviceVendor`` …), ``written`` as the event does (``src``); keys
    that the dictionary does not have keep their names. A declared ``timestamp`` reads the times of CEF: milliseconds since
    1970, ``Sep 07 2018 14:50:39.127 UTC``, ISO 8601; in UTC where they name no zone.

    ``\|`` and ``\\`` are resolved in the header, ``\=``, ``\\``, ``\n`` and ``\r`` in extensions. A value ends before
    the next key and may hold blanks and, unless ``strict``, ``=``.

    An event fails when its header is incomplete, when a line breaks inside it, when there is text before the first key,
    or when a value does not fit its declared type. An empty value is null for any type but text.

    ```yaml
    type: cef
    fields:
      "@timestamp": timestamp
      source.ip: string
      source.port: int
      event.action: string
    rest: cef.extensions
    ```
    """

    type: Literal["cef"] = "cef"
    rest: FieldName | None = Field(
        default="cef.extensions", description="Text field for the JSON of the extensions that are not declared; none drops them."
    )
    naming: Naming = Field(
        default="ecs", description="What fields are called: as in ECS, as in the CEF dictionary, or as written in the event."
    )
    strict: bool = Field(default=False, description="Fail events with an `=` in a value that has no backslash before it.")
    custom_labels: bool = Field(
        default=False,
        description="Call custom fields as their labels say (`cs1=a cs1Label=Rule` is `Rule`); an event with a custom field "
        "that has no label, or with one twice, fails.",
    )

    def key_to_field(self) -> Callable[[str], str | None]:
        """Keys in the names of the option ``naming``."""
        return key_names(self.naming)

    def header_names(self) -> Sequence[str]:
        """The seven fields of the header."""
        return headers(self.naming)

    def compile_cut(self) -> CutEvents:
        """Headers are cut at bars, extensions before the next key."""
        from parsers.cef.extensions import compile_cut

        return compile_cut(self.strict, self.custom_labels)
