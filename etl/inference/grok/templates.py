"""Finding templates of messages: constant words, and values that differ.

The method is that of Drain (P. He et al., ICWS 2017): messages of the same number of tokens that begin alike are compared
token by token, and those that have enough in common are one template, whose other tokens are variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from etl.inference.grok.tokens import KINDS
from etl.inference.times import TimeForm, time_at

ALIKE = 0.6
"""Minimum share of words that a message has in common with its template."""
MAX_TOKENS = 60
"""Tokens of a message that are compared; longer messages have no template."""
MAX_TEMPLATES = 500
"""Maximum number of templates; further messages are not compared."""

_VALUES = "|".join(f"(?P<{name}>{KINDS[name]})" for name in ("uuid", "url", "mac", "ip", "email", "hex"))
_IPV4 = r"(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\d)"
_UNIT = r"(?=(?:ns|us|ms|s|sec|[KMG]i?B|B|%)(?![\w/-]|\.\w))"
"""What may stand right after a number."""
_TOKEN = re.compile(
    rf"(?P<slash>/(?={_IPV4}))|(?<![\w.:])(?P<ipv4>{_IPV4})|(?<![\w.:])(?:{_VALUES}|(?P<path>(?<!\S)(?:/[\w.@%+~-]+){{2,}}/?))(?![\w:/-])"
    rf"|(?P<float>(?<![\w.])[+-]?\d{{1,15}}\.\d+(?:{_UNIT}|(?![\w-]|\.\w)))|(?P<int>(?<![\w.])[+-]?\d{{1,18}}(?:{_UNIT}|(?![\w-]|\.\w)))"
    r"|(?P<quote>\"[^\"\n]*\")|(?P<word>[\w.\-/@#$]*[\w\-/@#$])|(?P<blank>\s+)|(?P<mark>.)",
    re.DOTALL,
)
VALUE_KINDS = frozenset({"uuid", "url", "mac", "ip", "email", "hex", "path", "float", "int", "quote", "time"})


@dataclass(frozen=True)
class MessageToken:
    """A token of a message: its kind and text."""

    kind: str
    text: str
    form: TimeForm | None = None

    @property
    def key(self) -> str:
        """The key for comparisons: the kind of a value, the text of a word or mark."""
        if self.kind in VALUE_KINDS:
            return f"<{self.kind}>"
        return " " if self.kind == "blank" else self.text

    @property
    def is_word(self) -> bool:
        """Whether it counts in a comparison."""
        return self.kind not in ("blank", "mark")


@dataclass
class Template:
    """A kind of message. ``keys`` has None where words differ; ``samples`` are the first messages as pieces."""

    keys: list[str | None]
    samples: list[list[MessageToken]]
    lines: list[int] = field(default_factory=list)

    def has_values(self) -> bool:
        """Whether anything in it is variable."""
        return any(key is None or (len(key) > 2 and key[0] == "<" and key[-1] == ">") for key in self.keys)


SAMPLES = 200
"""Messages of a template used to find the types of its values."""


def split_message(message: str) -> list[MessageToken] | None:
    """The tokens of a message; None for one that is too long."""
    found = []
    at = 0
    while at < len(message):
        time = time_at(message, at) if at == 0 or not message[at - 1].isalnum() else None
        if time and time[0].score > 2 and not message[at : time[1]].replace(".", "").isdigit():
            found.append(MessageToken("time", message[at : time[1]], time[0]))
            at = time[1]
        else:
            token = _TOKEN.match(message, at)
            assert token
            found.append(MessageToken(_SAME.get(token.lastgroup or "", token.lastgroup or "mark"), token[0]))
            at = token.end()
        if len(found) > MAX_TOKENS:
            return None
    return found


_SAME = {"slash": "mark", "ipv4": "ip"}


def find_templates(messages: Iterable[tuple[int, str]]) -> list[Template]:
    """The templates of numbered messages, those of most messages first."""
    leaves: dict[tuple[int, str], list[Template]] = {}
    count = 0
    for number, message in messages:
        row = split_message(message)
        if not row:
            continue
        leaf = leaves.setdefault((len(row), row[0].key), [])
        found = _nearest(leaf, row)
        if found is None and count < MAX_TEMPLATES:
            found = Template([piece.key for piece in row], [])
            leaf.append(found)
            count += 1
        if found is not None:
            _add(found, row, number)
    return sorted((one for leaf in leaves.values() for one in leaf), key=lambda one: -len(one.lines))


def _nearest(leaf: Sequence[Template], row: Sequence[MessageToken]) -> Template | None:
    """The template with the most words in common with a message, if there are enough; all marks must be equal."""
    best, found = ALIKE, None
    for one in leaf:
        alike = words = 0
        for key, piece in zip(one.keys, row, strict=True):
            if piece.is_word:
                words += 1
                alike += key == piece.key
            elif key != piece.key:
                break
        else:
            share = alike / words if words else 1.0
            if share >= best:
                best, found = share, one
    return found


def _add(template: Template, row: list[MessageToken], number: int) -> None:
    template.lines.append(number)
    if len(template.samples) < SAMPLES:
        template.samples.append(row)
    for at, piece in enumerate(row):
        if template.keys[at] != piece.key:
            template.keys[at] = None
