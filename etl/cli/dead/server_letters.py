"""The dead letters of a pipeline of a server, over its API."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from etl.api import EtlError
from etl.cli.dead.letters import Choose, group_rows
from etl.cli.server.connection import Connection
from etl.cli.server.targets import find_server, require_server
from etl.running.dead_letter_share import printable

if TYPE_CHECKING:
    from etl.running.dead_letters.letter_filter import LetterFilter

POLL_SECONDS = 0.3
"""Seconds between two looks at a pipeline whose letters are settled."""

_AT_WORK = ("stopping", "replaying", "dropping")
_MESSAGES = ("replay", "replaying", "replayed", "dropped", "replay-failed", "drop-failed")
"""Messages of the server that concern the letters."""


def find_server_of(name: str, server: str | None, state: str | None) -> Connection | None:
    """The server of a pipeline; None for a file or recipe, unless ``server`` is given."""
    from etl.resources import recipes, scripts

    if server:
        return require_server(server, state)
    is_file = Path(name).exists() or name.endswith((".yaml", ".yml", ".sql")) or name in recipes() or name in scripts()
    return None if is_file or not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name) else find_server(None, state)


@dataclass(frozen=True)
class ServerLetters:
    """The open letters of a pipeline that a filter and a condition choose. The server masks secrets in them."""

    connection: Connection
    name: str
    chosen: LetterFilter
    matching: Choose | None
    """The condition, which is evaluated here; None without one."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The letters, from a copy in a temporary file."""
        from pyarrow.parquet import ParquetFile

        with TemporaryFile() as copy:
            self.connection.download(self._path("export"), copy, format="parquet", **self._parameters())
            copy.seek(0)
            try:
                letters = ParquetFile(copy)
            except pa.ArrowException:
                raise EtlError(f"what answers at {self.connection.url} is not a server of etl: it sends no letters") from None
            for batch in letters.iter_batches():
                yield self.matching(batch) if self.matching else batch

    def groups(self) -> list[dict[str, Any]]:
        """The letters by where and why they were rejected: the server counts them, unless a condition is evaluated here."""
        if self.matching:
            return group_rows(self.batches())
        return [{**one, "last": one["last"] and datetime.fromisoformat(one["last"])} for one in self._groups()]

    def _groups(self) -> list[dict[str, Any]]:
        while True:
            found = self.connection.pipeline("GET", self.name, "dead", **self._parameters())
            if found["complete"]:
                return list(found["groups"])
            time.sleep(POLL_SECONDS)

    def count_settled(self) -> int:
        """A server does not tell."""
        return 0

    def history(self, letter: dict[str, Any]) -> Sequence[dict[str, Any]]:
        """The earlier rejections of a letter that was replayed."""
        source, offset = letter["source"] or "", letter["offset"]
        if not source.startswith("replay-") or offset is None:
            return ()
        found = self.connection.pipeline("GET", self.name, "dead/history", is_list=True, source=source, offset=offset)
        return [{**one, "time": datetime.fromisoformat(one["time"])} for one in found]

    def replay(self, master: str | None) -> None:
        """Let the server replay them, and report what it says. Raises EtlError if that fails."""
        if master is not None:
            raise click.UsageError(f"--master goes with a file; {self.name} is replayed by the server at {self.connection.url}")
        self._settle("replay")

    def drop(self, confirm: Callable[[int], None]) -> None:
        """Let the server settle them."""
        self._refuse_condition()
        confirm(sum(group["events"] for group in self._groups()))
        self._settle("drop")

    def _settle(self, verb: str) -> None:
        self._refuse_condition()
        server = replace(self.connection, is_exact=True)  # the messages are to be no older than the status
        known = server.pipeline("GET", self.name, "logs", is_list=True, limit=1)
        last = known[-1]["id"] if known else 0
        server.pipeline("POST", self.name, f"dead/{verb}", **self._parameters())
        failed = False
        while True:
            is_over = server.pipeline("GET", self.name)["status"] not in _AT_WORK  # asked before the messages are read
            for message in server.pipeline("GET", self.name, "logs", is_list=True, limit=5000, after=last):
                last = message["id"]
                if message["event"] in _MESSAGES:
                    click.echo("\n".join(map(printable, message["message"].splitlines())), err=True)
                failed = failed or message["event"] == f"{verb}-failed"
            if is_over:
                break
            time.sleep(POLL_SECONDS)
        if failed:
            raise EtlError(f"the {verb} has failed, see above")

    def _refuse_condition(self) -> None:
        """Raises UsageError for a condition: the server would not see it, and settle other letters."""
        if self.matching:
            raise click.UsageError(
                "--where goes with `count`, `show` and `export` of a server's letters; these are chosen by --at, --code, "
                "--reason, --text, --since and --until"
            )

    def _path(self, verb: str) -> str:
        return f"{self.connection.path_of(self.name)}/dead/{verb}"

    def _parameters(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self.chosen).items() if value is not None}
