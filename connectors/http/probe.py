"""Looking whether a server is there and lets us in, without an event."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

from connectors.http.access import Access
from connectors.http.client import Client
from connectors.http.connection import Answer
from connectors.http.statuses import Status
from etl.api import Finding

PATIENCE_SECONDS = 5.0


def probe(access: Access, stops: tuple[Status, ...]) -> Iterator[Finding]:
    """Ask each server for what it takes (OPTIONS), which changes nothing. Raises ConnectionError, ComponentError."""
    for number, url in enumerate(access.urls):
        one = replace(access, urls=(url,), timeout=min(access.timeout, PATIENCE_SECONDS))
        with closing(Client(one)) as client:
            yield from _findings(client.ask("OPTIONS", ""), stops, number)


def _findings(answer: Answer, stops: tuple[Status, ...], number: int) -> Iterator[Finding]:
    at = ("urls", number)
    if answer.status in (401, 403, 407) and answer.status in stops:
        yield Finding("not-ready", answer.said(120), at, "see user, password, token and headers")
    elif 300 <= answer.status < 400:
        yield Finding("not-ready", answer.said(), at, "write that URL")
    elif answer.status == 404:
        yield Finding("unknown-page", f"{answer.place} has nothing at this path, or does not tell", at, severity="warning")
