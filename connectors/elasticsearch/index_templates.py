"""Index templates: what a server makes new indices with, put there before the first document.

Composable templates (``_index_template``), which Elasticsearch has from version 7.8 on and OpenSearch always.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from connectors.elasticsearch.answers import refuse
from connectors.elasticsearch.mappings import mappings
from connectors.file.templates import parse_template
from connectors.http.client import Client
from etl.api import ComponentError, Finding, Schema, cut, visible

log = logging.getLogger("sluice.elasticsearch")

ECS = "ecs"
"""The value of the option that stands for mappings made from the fields of the pipeline."""

LARGEST_FILE = 4 << 20
"""Bytes of a file with a template."""

PRIORITY = 200
"""Above the 100 of templates that Elasticsearch brings for ``logs-*-*``; the length of the prefix is added, so that of two
patterns that both fit, the longer one counts and the server finds no conflict."""

FIELDS_LIMIT = 2000
"""Fields of an index: twice the server's own limit."""

_SETTINGS = {"index": {"refresh_interval": "5s", "mapping": {"ignore_malformed": True, "total_fields": {"limit": FIELDS_LIMIT}}}}
_BODY_KEYS = ("settings", "mappings", "aliases")


@dataclass(frozen=True, slots=True)
class IndexTemplate:
    """The option ``template`` of a sink: ``ecs``, or the path of a JSON file; for indices named by ``index``."""

    source: str
    index: str
    data_stream: bool = False

    @property
    def prefix(self) -> str:
        """The literal text in front of the first brace of the index's name."""
        return parse_template(self.index).pieces[0]

    @property
    def pattern(self) -> str:
        """Which indices it is for."""
        return self.index if len(parse_template(self.index).pieces) == 1 else f"{self.prefix}*"

    @property
    def name(self) -> str:
        """How the server knows it."""
        return f"sluice-{self.prefix.strip('-_.') or 'events'}"

    def body(self, incoming: Schema) -> dict[str, Any]:
        """The template as JSON, with a fingerprint in ``_meta``. Raises ComponentError where its file is none."""
        body = self._given(incoming)
        body.setdefault("index_patterns", [self.pattern])
        body.setdefault("priority", PRIORITY + len(self.prefix))
        if self.data_stream:
            body.setdefault("data_stream", {})
        meta = body.get("_meta")
        fingerprint = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:32]
        body["_meta"] = {**(meta if isinstance(meta, dict) else {}), "sluice": fingerprint}
        return body

    def put(self, client: Client, incoming: Schema) -> None:
        """Have the server know it, unless it knows this very one. Raises as `refuse`, or ComponentError."""
        body = self.body(incoming)
        path = f"/_index_template/{quote(self.name, safe='')}"
        known = client.ask("GET", path)
        if known.status not in (200, 404):
            refuse(known)
        if known.status == 200 and _fingerprint(known.body) == body["_meta"]["sluice"]:
            return
        answer = client.ask("PUT", path, json.dumps(body).encode())
        if answer.status == 400:
            raise ComponentError(f"{answer.place} refuses index template {self.name!r}: {answer.excerpt(600)}")
        if answer.status != 200:
            refuse(answer)
        self._warn_of_old_indices(client)

    def check(self) -> Iterator[Finding]:
        """A file that is missing or no template."""
        if self.source == ECS:
            return
        try:
            _read(self.source)
        except ComponentError as error:
            yield Finding("bad-index-template", str(error), ("template",), f"write template: {ECS}, or the path of a JSON file")

    def _given(self, incoming: Schema) -> dict[str, Any]:
        if self.source == ECS:
            return {"template": {"settings": _SETTINGS, "mappings": mappings(visible(incoming))}}
        body = _read(self.source)
        if any(key in body for key in _BODY_KEYS):
            return {"template": {key: body[key] for key in _BODY_KEYS if key in body}}
        return body

    def _warn_of_old_indices(self, client: Client) -> None:
        answer = client.ask("GET", f"/{quote(self.pattern, safe='*')}/_alias?allow_no_indices=true")
        if answer.status != 200:
            return
        names = sorted(json.loads(answer.body))
        if names:
            shown = ", ".join(names[-3:])
            log.warning(
                "%s: indices that exist keep their mapping, %d of them (%s); template %r counts for new ones",
                answer.place, len(names), shown, self.name,
            )  # fmt: skip


def _fingerprint(body: bytes) -> str | None:
    """Of a template as the server tells it; None for one that is not ours."""
    try:
        return json.loads(body)["index_templates"][0]["index_template"]["_meta"]["sluice"]
    except (ValueError, LookupError, TypeError):
        return None


def _read(path: str) -> dict[str, Any]:
    """A file with a template, or with the settings and mappings of one. Raises ComponentError."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise ComponentError(f"cannot read template {path!r}: {error.strerror or error}") from error
    if len(data) > LARGEST_FILE:
        raise ComponentError(f"template {path!r} has more than {LARGEST_FILE >> 20} MiB")
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ComponentError(f"template {path!r} is not JSON: {cut(str(error), 200)}") from error
    if not isinstance(body, dict) or not any(key in body for key in ("template", "composed_of", *_BODY_KEYS)):
        raise ComponentError(
            f"template {path!r} has neither 'template' (as for PUT _index_template) nor 'settings' and 'mappings' at its top"
        )
    return body
