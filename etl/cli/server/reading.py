"""``etl ps``, ``etl status`` and ``etl logs``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import click

from etl.api import EtlError
from etl.cli.server.connection import Connection
from etl.cli.server.local_runs import LocalRun, local_runs, states
from etl.cli.server.targets import add_target_options, find, find_server

FOLLOW_SECONDS = 0.5
"""Seconds between two looks at a log."""

_COLOURS = {
    "running": "green",
    "waiting": "yellow",
    "failed": "red",
    "refused": "red",
    "stopping": "yellow",
    "starting": "yellow",
}


@click.command()
@add_target_options
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", help="A table, or JSON lines.")
def ps(server: str | None, state: str | None, form: str) -> None:
    """List the pipelines of a server, and the runs on this machine.

    \b
    Examples:
      etl ps
      etl ps --server https://etl.example.org:8321
    """
    connection = find_server(server, state)
    rows = _rows_of_server(connection) if connection else []
    if connection is None or not server:
        rows += [_row_of_run(run) for run in local_runs(states(state))]
    if form == "json":
        for row in rows:
            click.echo(json.dumps(row))
    elif rows:
        _print_table(rows)
    elif connection is not None:
        click.echo(f"the server at {connection.url} has no pipelines", err=True)
    else:
        click.echo(f"nothing runs with a state folder in {states(state)}", err=True)


def _rows_of_server(connection: Connection) -> list[dict[str, Any]]:
    listed = connection.get("/api/pipelines")
    for file, reason in listed["refused_files"].items():
        click.echo(f"{click.style('warning:', fg='yellow')} {printable(f'{file} does not run: {reason}')}", err=True)
    return [row_of_status(one) for one in listed["pipelines"]]


def row_of_status(one: Mapping[str, Any]) -> dict[str, Any]:
    """A line about a pipeline of a server."""
    counters, rates = one["counters"], one["rates"]
    note = one["error"] or (f"refused: {one['refused']['reason']}" if one["refused"] else "")
    return {
        "name": one["name"],
        "status": one["status"],
        "version": one["version"],
        "in/s": rates["read_per_second"],
        "out/s": rates["delivered_per_second"],
        "in": counters["read"],
        "out": counters["delivered"],
        "dead": counters["dead"],
        "lag": counters["lag_seconds"],
        "note": note.partition("\n")[0],
    }


def _row_of_run(run: LocalRun) -> dict[str, Any]:
    return {
        "name": run.name,
        "status": "running",
        "version": None,
        "in/s": None,
        "out/s": None,
        "in": int(run.total("sluice_source_events_total")),
        "out": int(run.total("sluice_sink_events_total", outcome="out")),
        "dead": int(run.total("sluice_dead_letters_total")),
        "lag": run.total("sluice_lag_seconds"),
        "note": f"process {run.pid}",
    }


def _print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    columns = [name for name in rows[0] if name == "name" or any(row[name] not in (None, "") for row in rows)]
    cells = [[_cell(name, row[name]) for name in columns] for row in rows]
    widths = [max(len(name), *(len(line[number]) for line in cells)) for number, name in enumerate(columns)]
    click.echo(click.style(_line(columns, columns, widths), bold=True))
    for row, line in zip(rows, cells, strict=True):
        text = _line(columns, line, widths)
        status = row["status"]
        click.echo(text.replace(status, click.style(status, fg=_COLOURS.get(status)), 1) if status not in row["name"] else text)


def _line(columns: Sequence[str], cells: Sequence[str], widths: Sequence[int]) -> str:
    texts = ("name", "status", "note")
    return "  ".join(
        f"{cell:<{width}}" if column in texts else f"{cell:>{width}}"
        for column, cell, width in zip(columns, cells, widths, strict=True)
    ).rstrip()


def _cell(column: str, value: Any) -> str:
    if value is None:
        return "-"
    if column == "lag":
        return f"{value:.1f} s"
    return f"{value:,.0f}" if isinstance(value, int | float) and column != "version" else printable(str(value))


def printable(text: str) -> str:
    """A text in which characters that could control a terminal are ``·``."""
    return "".join(character if character.isprintable() else "·" for character in text)


def printable_lines(text: str) -> str:
    """Lines without characters that could control a terminal."""
    return "\n".join(map(printable, text.splitlines()))


@click.command()
@click.argument("name")
@add_target_options
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="A text, or JSON.")
def status(name: str, server: str | None, state: str | None, form: str) -> None:
    """Show a running pipeline: its state, what came in and went out, each step and sink.

    NAME is namespace/name on a server, or the name of a run on this machine.

    \b
    Examples:
      etl status security/ssh
      etl status ssh-failed-logins
    """
    target = find(name, server, state)
    if isinstance(target, LocalRun):
        _print_local(target, form)
        return
    shown = target.pipeline("GET", name)
    click.echo(json.dumps(shown, indent=2) if form == "json" else "\n".join(_status_lines(shown)))


def _status_lines(shown: Mapping[str, Any]) -> list[str]:
    counters, rates = shown["counters"], shown["rates"]
    version = f", version {shown['version']}" if shown["version"] else ""
    colour = _COLOURS.get(shown["status"])
    lines = [f"{click.style(shown['name'], bold=True)}: {click.style(shown['status'], fg=colour)}{version}"]
    if shown["error"]:
        lines.append(f"  {click.style('last failure:', fg='red')} {printable_lines(shown['error'])}")
    if shown["refused"]:
        lines.append(f"  {click.style('the file is refused:', fg='red')} {printable_lines(shown['refused']['reason'])}")
    lines.append(
        f"  {counters['read']:,} in, {counters['delivered']:,} out, {counters['dead']:,} dead; "
        f"{rates['read_per_second']:,.0f} in/s, {rates['delivered_per_second']:,.0f} out/s; lag {counters['lag_seconds']:.1f} s"
    )
    lines += [f"  source {one['name']} ({one['type']}): {one['read']:,} read" for one in shown["sources"]]
    lines += [
        f"  {one['id']}: {one['incoming']:,} in, {one['left']:,} out, {one['filtered']:,} filtered, {one['dead']:,} dead"
        for one in shown["steps"]
    ]
    lines += [
        f"  sink {one['name']} ({one['type']}): {one['incoming']:,} in, {one['delivered']:,} out, {one['dead']:,} dead, "
        f"{one['spooled']:,} spooled, {one['retries']:,} retries"
        for one in shown["sinks"]
    ]
    lines += [
        f"  dead: {one['events']:,} at {one['at']}: {printable(one['reason'])} ({one['code']})" for one in shown["rejected"]
    ]
    return lines


def _print_local(run: LocalRun, form: str) -> None:
    row = _row_of_run(run)
    if form == "json":
        click.echo(json.dumps({**row, "state": str(run.root), "pid": run.pid}, indent=2))
        return
    click.echo(f"{click.style(run.name, bold=True)}: running, process {run.pid}, state in {run.root}")
    click.echo(f"  {row['in']:,} in, {row['out']:,} out, {row['dead']:,} dead; lag {row['lag']:.1f} s")
    steps = {labels["step"] for metric, labels, _ in run.samples() if metric == "sluice_step_events_total"}
    for step in sorted(steps):
        incoming, filtered = (run.total(f"sluice_step_{what}_total", step=step) for what in ("events", "filtered"))
        click.echo(f"  {step}: {incoming:,.0f} in, {filtered:,.0f} filtered")
    sinks = {labels["sink"] for metric, labels, _ in run.samples() if metric == "sluice_sink_events_total"}
    for sink in sorted(sinks):
        out, dead = (run.total("sluice_sink_events_total", sink=sink, outcome=what) for what in ("out", "dead"))
        click.echo(f"  sink {sink}: {out:,.0f} out, {dead:,.0f} dead")


@click.command()
@click.argument("name")
@add_target_options
@click.option("-f", "--follow", is_flag=True, help="Go on with further messages until Ctrl-C.")
@click.option("--limit", type=click.IntRange(min=1, max=5000), default=100, show_default=True, metavar="N", help="The last N.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Texts, or JSON lines.")
def logs(name: str, server: str | None, state: str | None, follow: bool, limit: int, form: str) -> None:
    """Show the last messages of a pipeline, oldest first.

    NAME is namespace/name on a server, or the name of a run on this machine.

    \b
    Examples:
      etl logs security/ssh
      etl logs security/ssh -f
    """
    target = find(name, server, state)
    with target.kept_open() if isinstance(target, Connection) else nullcontext(target) as opened:
        read = _log_reader(opened, name)
        last = 0
        while True:
            for message in read(limit, last):
                last = message["id"]
                click.echo(json.dumps(message) if form == "json" else _message_line(message))
            if not follow:
                return
            time.sleep(opened.pace.pause(FOLLOW_SECONDS) if isinstance(opened, Connection) else FOLLOW_SECONDS)
            limit = 5000


def _log_reader(target: Connection | LocalRun, name: str) -> Callable[[int, int], list[dict[str, Any]]]:
    """A function of the limit and the last id that gives further messages."""
    if isinstance(target, Connection):
        return lambda limit, after: list(target.pipeline("GET", name, "logs", is_list=True, limit=limit, after=after))
    from etl.running.message_log import read_messages

    if not target.root.is_dir():
        raise EtlError(f"there is no state in {target.root}")
    return lambda limit, after: read_messages(target.messages, limit, after)


def _message_line(message: Mapping[str, Any]) -> str:
    colour = {"error": "red", "warning": "yellow"}.get(message["level"])
    text = printable_lines(str(message["message"]))
    return f"{message['time']}  {click.style(text, fg=colour)}"
