"""The secrets of pipelines, which are masked in whatever leaves the server."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, SecretStr

from etl.config.model import Pipeline

MASK = "***"

MIN_CHARACTERS = 4
"""Shorter secrets are not masked: they are parts of most texts."""


class SecretValues:
    """The values of secret options of all pipelines that the server has had; `mask` replaces them in a text."""

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self._lock = threading.Lock()

    def add(self, pipeline: Pipeline) -> None:
        """Mask the secrets of a pipeline from now on."""
        found = {form for secret in secrets_of(pipeline) if len(secret) >= MIN_CHARACTERS for form in _forms(secret)}
        with self._lock:
            if not found <= self._values:
                self._values |= found
                longest_first = sorted(self._values, key=len, reverse=True)
                self._pattern = re.compile("|".join("".join(map(_character, form)) for form in longest_first))

    def mask(self, text: str) -> str:
        """The text without secrets."""
        return self._pattern.sub(MASK, text) if self._pattern is not None else text

    def mask_columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch whose texts are without secrets."""
        if self._pattern is None:
            return batch
        columns = [self._mask_column(column) if pa.types.is_string(column.type) else column for column in batch.columns]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def _mask_column(self, column: pa.Array) -> pa.Array:
        """Only the texts with a secret are Python's."""
        assert self._pattern is not None
        has_secret = pc.fill_null(pc.match_substring_regex(column, self._pattern.pattern), False)
        found = [self.mask(text) for text in column.filter(has_secret).to_pylist()]
        return pc.replace_with_mask(column, has_secret, pa.array(found, column.type)) if found else column


def _forms(secret: str) -> Iterator[str]:
    """A secret as it is, and as JSON and messages in Python have it."""
    yield secret
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield json.dumps(secret)[1:-1]
    yield repr(secret)[1:-1]


def _character(one: str) -> str:
    """A pattern for a character of a secret, also as URLs and forms write it."""
    encoded = re.sub("[A-F]", lambda found: f"[{found[0]}{found[0].lower()}]", quote(one, safe=""))
    if encoded == one:
        return re.escape(one)
    return f"(?:{re.escape(one)}|{encoded}{'|[+]' if one == ' ' else ''})"


def secrets_of(pipeline: Pipeline) -> Iterator[str]:
    """The values of all secret options."""
    components: list[Any] = [*pipeline.sources.values(), *pipeline.tables.values(), pipeline.dead_letters]
    components += [step for stream in pipeline.streams.values() for step in stream.steps]
    components += [output.sink for output in pipeline.sinks.values()]
    for component in components:
        yield from _secrets(component)


def _secrets(value: Any) -> Iterator[str]:
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        yield from (found for name in type(value).model_fields for found in _secrets(getattr(value, name)))
    elif isinstance(value, dict):
        yield from (found for item in value.values() for found in _secrets(item))
    elif isinstance(value, list | tuple):
        yield from (found for item in value for found in _secrets(item))
