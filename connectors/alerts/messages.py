"""Messages of a micro-batch, and their texts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from etl.api import BatchId, Staged

ELLIPSIS = "…"
DIGEST = "digest"
"""Key of the one message of a micro-batch."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message. ``texts`` has those of its events by template; ``events`` counts all, also those without a text."""

    key: str
    """Identifies the message in its micro-batch, the same when it is sent again."""
    texts: Sequence[tuple[str, ...]]
    events: int
    suppressed: int = 0
    """Events that were suppressed since the message before."""
    id: str = ""
    """Identifies the message, the same when it is sent again."""

    def compose(self, max_length: int, separator: str = "\n") -> str:
        """Return the text, in at most ``max_length`` units of UTF-16: as many events as fit, and how many there are besides."""
        notice = (
            f"{count_events(self.suppressed)} before this message {_was(self.suppressed)} suppressed." if self.suppressed else ""
        )
        room = max_length - _length(separator + notice) if notice else max_length
        lines: list[str] = []
        for at, (text, *_) in enumerate(self.texts):
            after = self.events - at - 1
            reserved = _length(separator + _more(after)) if after else 0
            used = _length(separator.join([*lines, ""])) if lines else 0
            if used + _length(text) + reserved > room:
                if not lines:
                    lines.append(truncate(text, room - reserved))
                break
            lines.append(text)
        rest = self.events - len(lines)
        return separator.join([*lines, *([_more(rest)] if rest else []), *([notice] if notice else [])])


def messages(staged: Sequence[Staged], batch: BatchId, digest: bool, max_events: int, scope: str) -> Iterator[Message]:
    """Yield the messages of a micro-batch; events beyond those that were rendered are in none but a digest."""
    texts = [one for output in staged for one in output.detail]
    if digest:
        events = sum(output.events for output in staged)
        if events:
            yield Message(DIGEST, texts[:max_events], events, id=_id(scope, batch, DIGEST))
        return
    repeats: Counter[str] = Counter()
    for one in texts:
        content = hashlib.sha256("\0".join(one).encode()).hexdigest()[:24]
        repeats[content] += 1
        key = f"{content}-{repeats[content]}"
        yield Message(key, [one], 1, id=_id(scope, batch, key))


def truncate(text: str, max_length: int) -> str:
    """Return a text in at most ``max_length`` units of UTF-16, with an ellipsis where it is cut."""
    if _length(text) <= max_length:
        return text
    cut = text.encode("utf-16-le")[: 2 * (max_length - 1)].decode("utf-16-le", errors="ignore")
    return cut.rstrip() + ELLIPSIS


def count_events(count: int) -> str:
    """Return ``1 event``, ``2,000 events``."""
    return f"{count:,} event{'' if count == 1 else 's'}"


def _more(count: int) -> str:
    return f"{ELLIPSIS} and {count:,} more event{'' if count == 1 else 's'}"


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def _id(scope: str, batch: BatchId, key: str) -> str:
    return hashlib.sha256(f"{scope}\n{batch.query}\n{batch.number}\n{key}".encode()).hexdigest()[:32]
