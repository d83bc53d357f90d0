"""``etl top``: a live table of pipelines."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import click

from etl.api import EtlError
from etl.cli.server.connection import Connection
from etl.cli.server.local_runs import LocalRun, local_runs, states
from etl.cli.server.reading import printable
from etl.cli.server.targets import add_target_options, find_server

COLUMNS = ("pipeline", "state", "in/s", "out/s", "dead/s", "lag", "behind", "batches", "note")

_LEFT_OUT = ("batches", "behind", "note", "lag", "out/s", "dead/s")
"""The columns that a narrow terminal leaves out, the first one first."""

_CUT_AT = {"pipeline": 16, "note": 12}
"""The columns whose texts are cut, and the characters that stay at least."""

PIPE_WIDTH = 120
"""Columns of a line where there is no terminal."""

EVERY_SECONDS = 1.0
"""Seconds between two looks."""

_FRAME_LINES = 3
"""Lines of the screen for the headings and the help, which takes two lines of a narrow terminal."""

HELP = "keys: up and down choose, Enter shows steps and sinks, Esc goes back, q ends"

UP, DOWN, ENTER, BACK, QUIT = "up", "down", "enter", "back", "quit"
_KEYS = {"\x1b[A": UP, "k": UP, "\x1b[B": DOWN, "j": DOWN, "\r": ENTER, "\n": ENTER, "\x1b": BACK, "q": QUIT, "\x03": QUIT}


@click.command()
@add_target_options
@click.option("--once", is_flag=True, help="Print the table once, also where there is no terminal.")
def command(server: str | None, state: str | None, once: bool) -> None:
    """Show all pipelines of a server, or the runs on this machine, live: events a second, lag, state.

    On a terminal: up and down choose a pipeline, Enter shows its steps and sinks, Esc goes back, q ends.

    \b
    Examples:
      etl top
      etl top --server https://etl.example.org:8321
    """
    connection = find_server(server, state)
    look: Callable[[], list[dict[str, Any]]] = Runs(states(state)).look if connection is None else lambda: _look(connection)
    if once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        if not _print_once(look):
            none = f"nothing runs with a state folder in {states(state)}"
            click.echo(f"the server at {connection.url} has no pipelines" if connection else none, err=True)
        return
    from rich.live import Live

    view = View()
    opened = nullcontext(connection) if connection is None else connection.kept_open()
    with opened as connection, _keys() as next_key, Live(auto_refresh=False, screen=True) as live:
        while True:
            rows = look()
            detail = connection.pipeline("GET", view.chosen(rows)) if view.shows_detail and connection and rows else None
            live.update(view.render(rows, detail, live.console.width, live.console.height), refresh=True)
            until = time.monotonic() + (connection.pace.pause(EVERY_SECONDS) if connection else EVERY_SECONDS)
            while (left := until - time.monotonic()) > 0:
                if (key := next_key(left)) is not None:
                    if view.press(key, len(rows)):
                        return
                    break


def _print_once(look: Callable[[], list[dict[str, Any]]]) -> bool:
    """Print the table; returns whether there is a pipeline."""
    from rich.console import Console

    rows = look()
    if rows:
        console = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH)
        console.print(View().table(rows, is_live=False, width=console.width))
    return bool(rows)


def _look(connection: Connection | None) -> list[dict[str, Any]]:
    assert connection is not None
    rows = []
    for one in connection.get("/api/pipelines")["pipelines"]:
        rates, counters = one["rates"], one["counters"]
        note = one["error"] or (one["refused"] and f"refused: {one['refused']['reason']}") or ""
        rows.append(
            {
                "name": one["name"],
                "status": one["status"],
                "in/s": rates["read_per_second"],
                "out/s": rates["delivered_per_second"],
                "dead/s": rates["dead_per_second"],
                "lag": counters["lag_seconds"],
                "behind": _behind(*(counters[f"backlog_{unit}"] for unit in ("events", "bytes", "seconds"))),
                "batches": counters["batches"],
                "note": str(note).partition("\n")[0],
            }
        )
    return rows


class Runs:
    """The runs on this machine; their rates are the differences between two looks."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._before: dict[str, tuple[float, dict[str, float]]] = {}

    def look(self) -> list[dict[str, Any]]:
        """A row for each run."""
        return [self._row(run) for run in local_runs(self._root)]

    def _row(self, run: LocalRun) -> dict[str, Any]:
        now = time.monotonic()
        sums = {
            "in/s": run.total("sluice_source_events_total"),
            "out/s": run.total("sluice_sink_events_total", outcome="out"),
            "dead/s": run.total("sluice_dead_letters_total"),
        }
        first, before = self._before.get(run.name, (now, sums))
        if sums != before or now - first > 2 * METRICS_SECONDS or run.name not in self._before:
            self._before[run.name] = now, sums
        seconds = max(now - first, EVERY_SECONDS)
        return {
            "name": run.name,
            "status": "running",
            **{name: (value - before[name]) / seconds for name, value in sums.items()},
            "lag": run.total("sluice_lag_seconds"),
            "behind": _behind(*(run.greatest(f"sluice_source_lag_{unit}") for unit in ("events", "bytes", "seconds"))),
            "batches": run.total("sluice_batches_total"),
            "note": f"process {run.pid}",
        }


def _behind(events: float | None, size: float | None, seconds: float | None) -> str:
    """What waits at the sources: ``1,234 (5 s)``, or its bytes where the events are not known."""
    if events is None and size is None:
        return ""
    amount = f"{events:,.0f}" if events is not None else f"{size or 0:,.0f} B"
    return f"{amount} ({seconds:.0f} s)" if seconds else amount


METRICS_SECONDS = 5.0
"""Seconds between two versions of a run's file of metrics."""

_STYLES = {"running": "green", "failed": "bold red", "refused": "bold red", "waiting": "yellow", "starting": "yellow"}


class View:
    """What the screen shows: the table, or one pipeline."""

    def __init__(self) -> None:
        self._line = 0
        self._first = 0
        """The first row on the screen."""
        self.shows_detail = False

    def press(self, key: str, rows: int) -> bool:
        """Carry out a key; returns whether the command ends."""
        if key == UP:
            self._line -= 1
        elif key == DOWN:
            self._line += 1
        elif key == ENTER:
            self.shows_detail = not self.shows_detail
        elif key == BACK:
            self.shows_detail = False
        self._line = max(0, min(self._line, rows - 1))
        return key == QUIT

    def chosen(self, rows: Sequence[Mapping[str, Any]]) -> str:
        """The name of the chosen pipeline."""
        return str(rows[min(self._line, len(rows) - 1)]["name"])

    def render(
        self,
        rows: Sequence[Mapping[str, Any]],
        detail: Mapping[str, Any] | None,
        width: int = PIPE_WIDTH,
        height: int | None = None,
    ) -> Any:
        """The screen, which has ``height`` lines."""
        return self.table(rows, is_live=True, width=width, height=height) if detail is None else _detail_table(detail)

    def table(self, rows: Sequence[Mapping[str, Any]], is_live: bool, width: int = PIPE_WIDTH, height: int | None = None) -> Any:
        """A line for each pipeline. Columns that do not fit are left out, for a number without its end is another number; of
        pipelines that do not fit, those around the chosen one are shown."""
        from rich.table import Table

        lines = [_cells(row) for row in rows]
        visible = self._visible(len(rows), height)
        caption = _caption(visible, len(rows)) if is_live else None
        table = Table(box=None, pad_edge=False, expand=True, caption=caption, caption_justify="left")
        for name in (shown := _columns_within(width, lines)):
            numeric = name not in ("pipeline", "state", "note")
            ratio = 1 if name == "note" else None  # it has the rest: a long note shortens no other column
            min_width = None if name in _CUT_AT else _width(name, lines)
            max_width = width - _needed(shown, lines) + _least(name, lines) if name == "pipeline" else None
            table.add_column(
                name,
                justify="right" if numeric else "left",
                no_wrap=True,
                overflow="ellipsis",
                ratio=ratio,
                min_width=min_width,
                max_width=max_width,
            )
        for number in visible:
            style = "reverse" if is_live and number == min(self._line, len(rows) - 1) else ""
            table.add_row(*(lines[number][name] for name in shown), style=style)
        return table

    def _visible(self, rows: int, height: int | None) -> range:
        """The rows that a screen has room for, with the chosen one; it moves over them before they scroll."""
        room = rows if height is None else max(1, height - _FRAME_LINES)
        last = min(self._line, rows - 1)
        self._first = max(0, min(self._first, last, rows - room))
        self._first = max(self._first, last - room + 1)
        return range(self._first, min(rows, self._first + room))


def _caption(visible: range, rows: int) -> str:
    """The help below the table, with the lines that are shown if these are not all."""
    return HELP if len(visible) == rows else f"{visible.start + 1:,} to {visible.stop:,} of {rows:,}; {HELP}"


def _cells(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the columns show of a pipeline."""
    from rich.text import Text

    return {
        "pipeline": Text(row["name"], "bold"),
        "state": Text(row["status"], _STYLES.get(row["status"], "")),
        "in/s": Text(f"{row['in/s']:,.0f}"),
        "out/s": Text(f"{row['out/s']:,.0f}"),
        "dead/s": Text(f"{row['dead/s']:,.0f}", "red" if row["dead/s"] > 0 else ""),
        "lag": Text(f"{row['lag']:.1f} s"),
        "behind": Text(row["behind"]),
        "batches": Text(f"{row['batches']:,.0f}"),
        "note": Text(printable(row["note"])),
    }


def _columns_within(width: int, lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns that a terminal of this width has room for."""
    shown = list(COLUMNS)
    for name in _LEFT_OUT:
        if _needed(shown, lines) <= width:
            break
        shown.remove(name)
    return shown


def _needed(shown: Sequence[str], lines: Sequence[Mapping[str, Any]]) -> int:
    """The width that columns need, with two blanks between them."""
    return sum(_least(name, lines) + 2 for name in shown) - 2


def _least(name: str, lines: Sequence[Mapping[str, Any]]) -> int:
    """The width that a column needs: names and notes may be cut."""
    return min(_width(name, lines), _CUT_AT[name]) if name in _CUT_AT else _width(name, lines)


def _width(name: str, lines: Sequence[Mapping[str, Any]]) -> int:
    return max([len(name), *(cells[name].cell_len for cells in lines)])


def _detail_table(shown: Mapping[str, Any]) -> Any:
    """The steps and sinks of a pipeline."""
    from rich.table import Table
    from rich.text import Text

    title = f"{shown['name']}: {shown['status']}, {shown['rates']['read_per_second']:,.0f} in/s"
    table = Table(box=None, pad_edge=False, expand=True, title=title, title_justify="left", caption=HELP, caption_justify="left")
    for name in ("step or sink", "in", "out", "filtered", "dead", "seconds"):
        table.add_column(name, justify="left" if name == "step or sink" else "right", no_wrap=True, overflow="ellipsis")
    for one in shown["steps"]:
        table.add_row(Text(one["id"]), *_numbers(one, "incoming", "left", "filtered", "dead"), f"{one['seconds']:.1f}")
    for one in shown["sinks"]:
        label = Text(f"sink {one['name']}", "bold")
        table.add_row(label, *_numbers(one, "incoming", "delivered", "filtered", "dead"), f"{one['seconds']:.1f}")
    return table


def _numbers(one: Mapping[str, Any], *names: str) -> Iterator[str]:
    return (f"{one[name]:,}" for name in names)


@contextmanager
def _keys() -> Iterator[Callable[[float], str | None]]:
    """While the body runs, keys come without Enter: gives a function that waits some seconds for one."""
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)

    def next_key(seconds: float) -> str | None:
        if not select.select([number], [], [], seconds)[0]:
            return None
        data = os.read(number, 16)
        if not data:
            raise EtlError("the terminal has gone")
        return _KEYS.get(data.decode("utf-8", "replace"))

    try:
        tty.setcbreak(number)
        yield next_key
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)
