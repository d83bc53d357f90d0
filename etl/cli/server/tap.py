"""``etl tap``: events as they pass."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import click

from etl.cli.server.connection import Connection
from etl.cli.server.local_runs import LocalRun
from etl.cli.server.targets import add_target_options, find

POLL_SECONDS = 0.5
"""Seconds between two requests or reads."""


@click.command()
@click.argument("name")
@click.argument("stream")
@click.option("--where", metavar="CONDITION", help="Only events for which this expression is true.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="End after N events.")
@click.option("--format", "form", type=click.Choice(["json", "table"]), default="json", help="JSON lines, or a table.")
@click.option(
    "--file", metavar="FILE", type=click.Path(exists=True, dir_okay=False), help="The pipeline file of a run on this machine."
)
@add_target_options
def command(name: str, stream: str, limit: int | None, form: str, **options: str | None) -> None:
    """Show samples of the events that leave a source or stream, or reach a sink, until Ctrl-C.

    NAME is namespace/name on a server, or the name of a run on this machine, which needs --file. The pipeline never waits:
    it copies at most 50 events of each split, and none while the viewer is behind. With --where it searches the first 4,096
    of each batch.

    \b
    Examples:
      etl tap security/ssh parsed
      etl tap security/ssh parsed --where "source.ip like '10.%'" --limit 5
      etl tap ssh parsed --file ssh.yaml
    """
    table = _Table() if form == "table" else None
    for number, event in enumerate(_events(name, stream, **options), 1):
        click.echo(table.line(event) if table else json.dumps(event, ensure_ascii=not sys.stdout.isatty()))
        if number == limit:
            return


def _events(
    name: str, stream: str, where: str | None, file: str | None, server: str | None, state: str | None
) -> Iterator[dict[str, Any]]:
    """The samples, without end."""
    target = find(name, server, state)
    return _remote(target, name, stream, where) if isinstance(target, Connection) else _local(target, stream, where, file)


def _remote(connection: Connection, name: str, stream: str, where: str | None) -> Iterator[dict[str, Any]]:
    after = 0
    with connection.kept_open() as server:
        while True:
            found = server.pipeline("GET", name, "samples", stream=stream, where=where, after=after)
            for one in found["events"]:
                after = one["id"]
                yield one["event"]
            time.sleep(server.pace.pause(POLL_SECONDS))


def _local(run: LocalRun, stream: str, where: str | None, file: str | None) -> Iterator[dict[str, Any]]:
    if file is None:
        raise click.UsageError(f"{run.name} is a run of `etl run`: name its pipeline file with --file")
    from etl.config.loader import load
    from etl.running.samples import EVENTS_OF_SPLIT, Tap, check_condition, plain_events, tap_points

    pipeline = load(file)
    points = tap_points(pipeline, stream)
    if where:
        check_condition(pipeline, stream, where)
    tap = Tap(run.root / "taps", points, where, EVENTS_OF_SPLIT)
    try:
        alive = True
        while alive:
            alive = run.is_alive()  # events that its last tasks wrote are read after its end
            for batch in tap.read():
                yield from plain_events(batch)
            time.sleep(POLL_SECONDS)
            tap.renew()
        click.echo(f"{run.name} has ended", err=True)
    finally:
        tap.close()


class _Table:
    """Events as lines of columns, which are those of the first event, with a line of names before every 20 events."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._lines = 0

    def line(self, event: dict[str, Any]) -> str:
        self._names = self._names or list(event)
        cells = "  ".join(_cell(event.get(name)) for name in self._names).rstrip()
        self._lines += 1
        if self._lines % 20 == 1:
            head = "  ".join(f"{name[:_WIDTH]:<{_WIDTH}}" for name in self._names).rstrip()
            return f"{click.style(head, bold=True)}\n{cells}"
        return cells


_WIDTH = 20
"""Characters of a column."""


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
    plain = "".join(character if character.isprintable() else "·" for character in text[: _WIDTH + 1])
    return f"{plain[: _WIDTH - 1]}…" if len(plain) > _WIDTH else f"{plain:<{_WIDTH}}"
