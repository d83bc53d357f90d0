"""Events as results: rows in Python, a table when printed, an HTML table in a notebook."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, overload

from etl.sdk.display import printable
from etl.testing.yaml_writer import format_scalar

MAX_SHOWN = 50
"""Rows of a table that are shown."""

MAX_CHARACTERS = 60
"""Characters of one value in a table; longer ones are cut."""


class Events(Sequence[Mapping[str, Any]]):
    """Events in their order, each a mapping of its fields that are not null; nested fields have dotted names.

    Times are texts in ISO 8601, binary values are in base64. ``events == [{…}, …]`` compares them with plain mappings.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]], names: Sequence[str], title: str = "", left_out: int = 0) -> None:
        self._rows, self.names, self.title = list(rows), list(names), title
        self._left_out = left_out
        """Events after these that a table counts and does not show."""

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Events: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, Any] | Events:
        return Events(self._rows[index], self.names, self.title) if isinstance(index, slice) else self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._rows == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return "\n".join(text_table(self._heads(), self._cells()) + ([self._more()] if self._more() else []))

    def _repr_html_(self) -> str:
        return html_table(self._heads(), self._cells(), printable(self.title, MAX_CHARACTERS), self._more())

    def first(self, count: int) -> Events:
        """The first events, in a table that says how many there are more."""
        return Events(self._rows[:count], self.names, self.title, max(len(self._rows) - count, 0))

    def to_pandas(self) -> Any:
        """The events as a pandas DataFrame."""
        import pandas  # type: ignore[import-untyped]

        return pandas.DataFrame(self._rows, columns=self.names)

    def _cells(self) -> list[list[str]]:
        return [[_cell(row[name]) if name in row else "" for name in self.names] for row in self._rows[:MAX_SHOWN]]

    def _heads(self) -> list[str]:
        return [printable(name, MAX_CHARACTERS) for name in self.names]

    def _more(self) -> str:
        left_out = self._left_out + max(len(self._rows) - MAX_SHOWN, 0)
        return f"… {left_out:,} more" if left_out else ""


def text_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table with a head."""
    if not rows:
        return [f"no events ({', '.join(names)})" if names else "no events"]
    widths = [max(_width(text) for text in column) for column in zip(names, *rows, strict=True)]
    lines = [_line(names, widths), "  ".join("─" * width for width in widths)]
    return [*lines, *(_line(row, widths) for row in rows)]


def html_table(names: Sequence[str], rows: Sequence[Sequence[str]], title: str = "", note: str = "") -> str:
    """A table in HTML, with all texts escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>" for row in rows)
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    end = f"<p>{escape(note)}</p>" if note else "" if rows else "<p>no events</p>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{end}"


def _cell(value: Any) -> str:
    """A value on one line, without control characters."""
    text = value if isinstance(value, str) else format_scalar(value)
    return printable(text, MAX_CHARACTERS)


def _line(texts: Sequence[str], widths: Sequence[int]) -> str:
    padded = (text + " " * (width - _width(text)) for text, width in zip(texts, widths, strict=True))
    return "  ".join(padded).rstrip()


def _width(text: str) -> int:
    """Columns of a terminal: wide characters of East Asian scripts take two."""
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)
