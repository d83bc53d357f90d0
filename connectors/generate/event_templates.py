"""Templates with placeholders, rendered for many events at a time from their numbers and times alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import nearest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PART = re.compile(r"\{\{|\}\}|\{(?P<name>[^{}:]*)(?P<arguments>:[^{}]*)?\}|(?P<stray>[{}])")
_WORDS = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliett", "kilo", "lima"]
_USERS = ["root", "admin", "alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy", "mallory"]
_HOSTS = [f"{kind}{number:02d}" for kind in ("web", "db", "app", "mail") for number in range(1, 9)]
_METHODS = ["GET"] * 7 + ["POST"] * 2 + ["DELETE"]
_PATHS = ["/", "/index.html", "/login", "/logout", "/search", "/cart", "/api/v1/items", "/api/v1/users", "/health"]
_STATUS = ["200"] * 14 + ["301", "304", "401", "403", "404", "500"]


class TemplateError(ValueError):
    """A template that cannot be parsed, with the position of the error and a hint."""

    def __init__(self, message: str, at: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.at = at
        self.hint = hint


@dataclass(frozen=True)
class EventNumbers:
    """Numbers and times of events, from which placeholders are computed."""

    numbers: NDArray[np.int64]
    times: NDArray[np.int64]
    """Microseconds since 1970."""
    seed: int

    def take(self, rows: NDArray[np.intp]) -> EventNumbers:
        """Return the given rows."""
        return EventNumbers(self.numbers[rows], self.times[rows], self.seed)


Render = Callable[[EventNumbers, int], pa.Array]
"""Renders a placeholder: events and the placeholder's slot → a text for each event. Slots give placeholders different random
numbers.
"""


@dataclass(frozen=True)
class Template:
    """Literal texts and placeholders in order."""

    parts: Sequence[str | Render]

    def render(self, events: EventNumbers, slot: int) -> pa.StringArray:
        """Return a text for each event."""
        pieces = [
            pa.scalar(part) if isinstance(part, str) else part(events, slot + position)
            for position, part in enumerate(self.parts)
        ]
        if all(isinstance(part, str) for part in self.parts):
            return pa.repeat("".join(str(part) for part in self.parts), len(events.numbers))
        return pc.binary_join_element_wise(*pieces, "")


def parse_template(text: str) -> Template:
    """Parse a template. Raises TemplateError."""
    parts: list[str | Render] = []
    at = 0
    for found in _PART.finditer(text):
        parts.append(text[at : found.start()])
        at = found.end()
        if found["stray"]:
            raise TemplateError(f"stray {found['stray']!r}; a brace itself is written twice", found.start())
        parts.append(found[0][0] if found["name"] is None else _placeholder(found))
    parts.append(text[at:])
    return Template([part for part in parts if part != ""])


def draw_random(events: EventNumbers, slot: int) -> NDArray[np.uint64]:
    """Return a random 64-bit number for each event: a hash of seed, slot and the event's number (splitmix64's finisher)."""
    import numpy as np

    offset = np.uint64((events.seed * 0x9E3779B97F4A7C15 + slot * 0xD1B54A32D192ED03) % 2**64)
    x = events.numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + offset
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _placeholder(found: re.Match[str]) -> Render:
    name = found["name"]
    arguments = found["arguments"][1:] if found["arguments"] is not None else None
    if name not in _PLACEHOLDERS:
        known = ", ".join(_PLACEHOLDERS)
        raise TemplateError(f"unknown placeholder {name!r}", found.start(), nearest(name, _PLACEHOLDERS) or f"there are: {known}")
    try:
        return _PLACEHOLDERS[name](arguments)
    except ValueError as error:
        raise TemplateError(f"placeholder {found[0]!r}: {error}", found.start()) from None


# ── Placeholders: arguments → Render ──────────────────────────────────────────────────────────────


def _plain(render: Render) -> Callable[[str | None], Render]:
    """A placeholder without arguments."""

    def make(arguments: str | None) -> Render:
        if arguments is not None:
            raise ValueError("takes no argument")
        return render

    return make


def _one_of(choices: Sequence[str]) -> Render:
    def render(events: EventNumbers, slot: int) -> pa.Array:
        values = pa.array(choices, pa.string())  # not outside: the first array imports pandas, which takes 0.2 s
        return values.take(pa.array((draw_random(events, slot) % len(choices)).astype("int32")))

    return render


def _choice(arguments: str | None) -> Render:
    if not arguments:
        raise ValueError("needs texts to choose from, such as {choice:a|b|c}")
    return _one_of(arguments.split("|"))


def _bounds(arguments: str | None, convert: Callable[[str], Any], example: str) -> tuple[Any, Any]:
    try:
        low, high = map(convert, (arguments or "").split(":"))
    except ValueError:
        raise ValueError(f"needs two numbers, such as {example}") from None
    if not low <= high:
        raise ValueError(f"{low} is more than {high}")
    return low, high


def _int(arguments: str | None) -> Render:
    low, high = _bounds(arguments, int, "{int:1:100}")
    if low < -(2**62) or high > 2**62:
        raise ValueError("numbers go from -2^62 to 2^62")

    def render(events: EventNumbers, slot: int) -> pa.Array:
        numbers = (draw_random(events, slot) % (high - low + 1)).astype("int64") + low
        return pa.array(numbers).cast(pa.string())

    return render


def _float(arguments: str | None) -> Render:
    low, high = _bounds(arguments, float, "{float:0:1}")

    def render(events: EventNumbers, slot: int) -> pa.Array:
        numbers = low + draw_random(events, slot) / 2.0**64 * (high - low)
        return pa.array(numbers.round(3)).cast(pa.string())

    return render


def _hex(arguments: str | None) -> Render:
    try:
        digits = int(arguments or "")
    except ValueError:
        raise ValueError("needs a number of digits, such as {hex:8}") from None
    if not 1 <= digits <= 64:
        raise ValueError("takes 1 to 64 digits")
    return lambda events, slot: _hex_digits(events, slot, digits)


def _hex_digits(events: EventNumbers, slot: int, digits: int) -> pa.StringArray:
    import numpy as np

    words = -(-digits // 16)
    random = np.stack([draw_random(events, slot * 64 + 17 + word) for word in range(words)], axis=1).view(np.uint8)
    nibbles = np.stack([random >> 4, random & 15], axis=2).reshape(len(random), words * 16)[:, :digits]
    return _fixed_texts(np.frombuffer(b"0123456789abcdef", np.uint8)[nibbles])


def _fixed_texts(characters: NDArray[np.uint8]) -> pa.StringArray:
    """Convert a matrix of ASCII characters to a text for each row."""
    import numpy as np

    rows, width = characters.shape
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(characters)))


def _uuid(events: EventNumbers, slot: int) -> pa.Array:
    import numpy as np

    digits = _hex_digits(events, slot, 32)
    raw = np.frombuffer(digits.buffers()[2], np.uint8).reshape(-1, 32)
    text = np.full((len(raw), 36), ord("-"), np.uint8)
    text[:, [k for k in range(36) if k not in (8, 13, 18, 23)]] = raw
    text[:, 14] = ord("4")
    text[:, 19] = np.frombuffer(b"89ab", np.uint8)[raw[:, 16] & 3]
    return _fixed_texts(text)


def _ip(events: EventNumbers, slot: int) -> pa.Array:
    random = draw_random(events, slot)
    octets = pa.array([str(number) for number in range(256)])
    first = octets.take(pa.array((1 + (random & 0xFF) % 223).astype("int32")))
    others = [octets.take(pa.array(((random >> shift) & 0xFF).astype("int32"))) for shift in (8, 16, 24)]
    return pc.binary_join_element_wise(first, *others, ".")


def _ipv6(events: EventNumbers, slot: int) -> pa.Array:
    groups = [_hex_digits(events, slot * 8 + group, 4) for group in range(6)]
    return pc.binary_join_element_wise(pa.scalar("2001"), pa.scalar("db8"), *groups, ":")


def _time(pattern: str) -> Render:
    """Render the event's time; only distinct seconds are formatted."""

    def render(events: EventNumbers, slot: int) -> pa.Array:
        import numpy as np

        seconds, position = np.unique(events.times // 1_000_000, return_inverse=True)
        texts = pc.strftime(pa.array(seconds).cast(pa.timestamp("s", "UTC")), format=pattern)
        return texts.take(pa.array(position.astype(np.int32)))

    return render


def _now(events: EventNumbers, slot: int) -> pa.Array:
    millis = pa.array([f"{number:03d}Z" for number in range(1000)])
    seconds = _time("%Y-%m-%dT%H:%M:%S")(events, slot)
    fraction = millis.take(pa.array((events.times // 1000 % 1000).astype("int32")))
    return pc.binary_join_element_wise(seconds, fraction, ".")


_PLACEHOLDERS: dict[str, Callable[[str | None], Render]] = {
    "i": _plain(lambda events, slot: pa.array(events.numbers).cast(pa.string())),
    "now": _plain(_now),
    "syslog_time": _plain(_time("%b %e %H:%M:%S")),
    "http_time": _plain(_time("%d/%b/%Y:%H:%M:%S +0000")),
    "epoch": _plain(lambda events, slot: pa.array(events.times // 1_000_000).cast(pa.string())),
    "epoch_millis": _plain(lambda events, slot: pa.array(events.times // 1000).cast(pa.string())),
    "ip": _plain(_ip),
    "ipv6": _plain(_ipv6),
    "user": _plain(_one_of(_USERS)),
    "host": _plain(_one_of(_HOSTS)),
    "word": _plain(_one_of(_WORDS)),
    "method": _plain(_one_of(_METHODS)),
    "path": _plain(_one_of(_PATHS)),
    "status": _plain(_one_of(_STATUS)),
    "uuid": _plain(_uuid),
    "int": _int,
    "float": _float,
    "hex": _hex,
    "choice": _choice,
}
