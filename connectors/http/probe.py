"""Probe of a server: does it respond and accept the credentials? Sends no event."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

from connectors.http.client import Client
from connectors.http.connection import Response
from connectors.http.connection_settings import ConnectionSettings
from connectors.http.statuses import Status
from etl.api import Finding

PROBE_TIMEOUT_SECONDS = 5.0
"""How long a server may take to respond."""


def probe(settings: ConnectionSettings, stops: tuple[Status, ...], method: str, path: str) -> Iterator[Finding]:
    """Send a request without a body to each server, which changes nothing. Raises ConnectionError, ComponentError."""
    for number, url in enumerate(settings.urls):
        one = replace(settings, urls=(url,), timeout=min(settings.timeout, PROBE_TIMEOUT_SECONDS))
        with closing(Client(one)) as client:
            yield from _findings(client.request(method, path), stops, number)


def _findings(response: Response, stops: tuple[Status, ...], number: int) -> Iterator[Finding]:
    at = ("urls", number)
    if response.status in (401, 403, 407) and response.status in stops:
        yield Finding("not-ready", response.describe(120), at, "check user, password, token and headers")
    elif 300 <= response.status < 400:
        yield Finding("not-ready", response.describe(), at, "write that URL")
    elif response.status == 404:
        yield Finding(
            "unknown-page", f"{response.server} has nothing at this path, or does not support OPTIONS", at, severity="warning"
        )
