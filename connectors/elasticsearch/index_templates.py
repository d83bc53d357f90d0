"""Index templates: settings and mappings for new indices, installed before the first document.

Composable templates (``_index_template``), which Elasticsearch has since version 7.8 and OpenSearch always had.
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

from connectors.elasticsearch.bulk_response import raise_for_response
from connectors.elasticsearch.mappings import make_mappings
from connectors.http.client import Client
from connectors.shared.path_template import parse_template
from etl.api import ComponentError, Finding, Schema, cut, visible

log = logging.getLogger("sluice.elasticsearch")

ECS = "ecs"
"""Value of the option that derives mappings from the fields of the pipeline."""

MAX_FILE_BYTES = 4 << 20
"""Largest file with a template, in bytes."""

PRIORITY = 200
"""Above the priority 100 of Elasticsearch's own templates for ``logs-*-*``; the length of the prefix is added, so that the
longer of two matching patterns wins and the server finds no conflict.
"""

FIELDS_LIMIT = 2000
"""Fields of an index: twice the server's default."""

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
        """Literal text before the first brace of the index name."""
        return parse_template(self.index).pieces[0]

    @property
    def pattern(self) -> str:
        """Pattern of the indices that it applies to."""
        return self.index if len(parse_template(self.index).pieces) == 1 else f"{self.prefix}*"

    @property
    def name(self) -> str:
        """Name of the template on the server."""
        return f"sluice-{self.prefix.strip('-_.') or 'events'}"

    def body(self, incoming: Schema) -> dict[str, Any]:
        """Return the template as JSON, with a fingerprint in ``_meta``. Raises ComponentError if its file is not a template."""
        body = self._content(incoming)
        body.setdefault("index_patterns", [self.pattern])
        body.setdefault("priority", PRIORITY + len(self.prefix))
        if self.data_stream:
            body.setdefault("data_stream", {})
        meta = body.get("_meta")
        fingerprint = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:32]
        body["_meta"] = {**(meta if isinstance(meta, dict) else {}), "sluice": fingerprint}
        return body

    def install(self, client: Client, incoming: Schema) -> None:
        """Install the template, unless the server has this version. Raises as `raise_for_response`, or ComponentError."""
        body = self.body(incoming)
        path = f"/_index_template/{quote(self.name, safe='')}"
        known = client.request("GET", path)
        if known.status not in (200, 404):
            raise_for_response(known)
        if known.status == 200 and _fingerprint(known.body) == body["_meta"]["sluice"]:
            return
        response = client.request("PUT", path, json.dumps(body).encode())
        if response.status == 400:
            raise ComponentError(f"{response.server} refuses index template {self.name!r}: {response.excerpt(600)}")
        if response.status != 200:
            raise_for_response(response)
        self._warn_of_old_indices(client)

    def check(self) -> Iterator[Finding]:
        """Yield a finding if the file is missing or not a template."""
        if self.source == ECS:
            return
        try:
            _read(self.source)
        except ComponentError as error:
            yield Finding("bad-index-template", str(error), ("template",), f"write template: {ECS}, or the path of a JSON file")

    def _content(self, incoming: Schema) -> dict[str, Any]:
        if self.source == ECS:
            return {"template": {"settings": _SETTINGS, "mappings": make_mappings(visible(incoming))}}
        body = _read(self.source)
        if any(key in body for key in _BODY_KEYS):
            return {"template": {key: body[key] for key in _BODY_KEYS if key in body}}
        return body

    def _warn_of_old_indices(self, client: Client) -> None:
        response = client.request("GET", f"/{quote(self.pattern, safe='*')}/_alias?allow_no_indices=true")
        if response.status != 200:
            return
        names = sorted(json.loads(response.body))
        if names:
            shown = ", ".join(names[-3:])
            log.warning(
                "%s: %d existing indices keep their mapping (%s); template %r applies to new ones",
                response.server, len(names), shown, self.name,
            )  # fmt: skip


def _fingerprint(body: bytes) -> str | None:
    """Return the fingerprint of a template on the server; None for a template that this sink did not install."""
    try:
        return json.loads(body)["index_templates"][0]["index_template"]["_meta"]["sluice"]
    except (ValueError, LookupError, TypeError):
        return None


def _read(path: str) -> dict[str, Any]:
    """Read a file with a template, or with settings and mappings only. Raises ComponentError."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ComponentError(f"cannot read template {path!r}: {error.strerror or error}") from error
    if len(data) > MAX_FILE_BYTES:
        raise ComponentError(f"template {path!r} has more than {MAX_FILE_BYTES >> 20} MiB")
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ComponentError(f"template {path!r} is not JSON: {cut(str(error), 200)}") from error
    if not isinstance(body, dict) or not any(key in body for key in ("template", "composed_of", *_BODY_KEYS)):
        raise ComponentError(
            f"template {path!r} has neither 'template' (as for PUT _index_template) nor 'settings' and 'mappings' at its top"
        )
    return body
