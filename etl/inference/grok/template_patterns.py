"""A template of messages as a grok pattern: constant words as they are, values by their types."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from etl.inference.column_names import REQUEST_LINE, make_unique, most_match
from etl.inference.column_patterns import REQUEST_PATTERN, VALUE_PATTERNS, escape_literal
from etl.inference.grok.templates import VALUE_KINDS, MessageToken, Template
from etl.inference.grok.tokens import kind_of
from etl.inference.grok.value_names import value_name

_PATTERNS = {
    **VALUE_PATTERNS,
    "url": "%{{NOTSPACE:{0}}}",
    "hex": "(?<{0}>(?:0x)?[0-9a-fA-F]+)",
    "path": "(?<{0}>/[^\\s,;:()]*)",
    "quote": '"(?<{0}>[^"]*)"',
    "word": "(?<{0}>[\\w.\\-/@#$]*[\\w\\-/@#$])",
}
_REQUEST_FIELDS = ("http.request.method", "url.original", "http.version")
_WORD = re.compile(r"[A-Za-z_][\w.\-]*")


def message_pattern(template: Template, taken: set[str]) -> tuple[str, list[str]]:
    """The pattern of a template's messages, and the names of the fields that it gives beside ``taken``."""
    parts: list[str] = []
    names: list[str] = []
    used = set(taken)
    words: list[str] = []
    for at, key in enumerate(template.keys):
        values = [row[at] for row in template.samples]
        kind = variable_kind(key, values)
        if kind:
            if kind == "quote" and most_match([value.text for value in values], REQUEST_LINE):
                parts.append(REQUEST_PATTERN)
                names += _REQUEST_FIELDS
                used.update(_REQUEST_FIELDS)
                continue
            port = _port_of(template.keys, at, names) if kind == "int" else ""
            name = make_unique(port, used) if port else value_name(kind, words, list(_words_after(template.keys, at)), used)
            used.add(name)
            names.append(name)
            parts.append(_time(values, name) if kind == "time" else _PATTERNS[kind].format(name))
            words = []
        else:
            parts.append(" +" if key == " " and len({value.text for value in values}) > 1 else _literal(values[0]))
            if _WORD.fullmatch(word := values[0].text.strip('"')):
                words.append(word)
    return "".join(parts), names


def _time(values: Sequence[MessageToken], name: str) -> str:
    forms = {value.form.grok_pattern(): None for value in values if value.form}
    return f"(?<{name}>{'|'.join(forms)})"


def _port_of(keys: Sequence[str | None], at: int, names: Sequence[str]) -> str:
    """``source.port`` for a number after ``source.ip`` and a colon."""
    if at < 2 or keys[at - 1] != ":" or keys[at - 2] != "<ip>" or not names:
        return ""
    return f"{names[-1].removesuffix('.ip')}.port" if names[-1].endswith(".ip") else f"{names[-1]}_port"


def _literal(piece: MessageToken) -> str:
    return r"\s+" if piece.kind == "blank" and set(piece.text) != {" "} else escape_literal(piece.text)


def _words_after(keys: Sequence[str | None], at: int) -> Iterator[str]:
    """The words after a value, up to the next one."""
    for key in keys[at + 1 : at + 4]:
        if key is None or key[0] == "<":
            return
        if _WORD.fullmatch(key):
            yield key


def variable_kind(key: str | None, values: Sequence[MessageToken]) -> str:
    """The kind of the values at a position; empty where all messages have the same word."""
    if key is not None and not (key[0] == "<" and key[1:-1] in VALUE_KINDS):
        return ""
    if key == "<quote>" and len(values) > 1 and len({piece.text for piece in values}) == 1:
        return ""
    kinds = {piece.kind for piece in values}
    if len(kinds) == 1:
        kind = kinds.pop()
        return kind if kind in VALUE_KINDS and kind != "line" else _of_words(values)
    return "float" if kinds == {"int", "float"} else "word"


def _of_words(values: Sequence[MessageToken]) -> str:
    kinds = {kind_of(piece.text) for piece in values}
    return "int" if kinds == {"int"} else "word"
