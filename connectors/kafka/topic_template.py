"""Topic of each event: a fixed name, or a template with fields in braces whose result is checked against Kafka's rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from connectors.kafka.topics import LEGAL_TOPIC
from connectors.shared.field_texts import to_texts
from etl.api import Finding, Schema, unknown_field

_BRACES = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class TopicTemplate:
    """A topic name that may contain ``{field}``."""

    template: str

    @cached_property
    def pieces(self) -> list[str]:
        """Literal texts at even indexes, field names at odd ones."""
        return _BRACES.split(self.template)

    @property
    def is_fixed(self) -> bool:
        """Whether all events go to one topic."""
        return len(self.pieces) == 1

    def topic_names(self, batch: pa.RecordBatch) -> pa.DictionaryArray:
        """Return the topic of each event; null where a field of the template is null."""
        if self.is_fixed:
            return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), batch.num_rows), [self.template])
        fields = [to_texts(batch.column(piece)) if at % 2 else pa.scalar(piece) for at, piece in enumerate(self.pieces)]
        return pc.binary_join_element_wise(*fields, "").dictionary_encode()

    def check(self, incoming: Schema) -> Iterator[Finding]:
        """Yield findings for unknown fields, and for names that no topic can have."""
        for name in self.pieces[1::2]:
            if name not in incoming.names:
                at = self.template.index("{" + name + "}") + 1
                yield unknown_field(name, incoming, ("topic",), at)
        literal = "".join(self.pieces[::2]) or "x"
        if not LEGAL_TOPIC.fullmatch(literal if self.is_fixed else f"{literal}x"):
            message = f"{self.template!r} cannot name a topic: that has 1 to 249 letters, digits, dots, underscores and dashes"
            yield Finding("bad-topic", message, ("topic",))


def is_legal_topic(names: pa.Array) -> pa.BooleanArray:
    """Return which names Kafka accepts; false for null."""
    return pa.array([name is not None and LEGAL_TOPIC.fullmatch(name) is not None for name in names.to_pylist()], pa.bool_())
