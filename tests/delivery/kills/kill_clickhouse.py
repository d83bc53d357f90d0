"""Tables of ClickHouse in kill tests."""

from __future__ import annotations

from collections.abc import Iterator

from kill_table import Workspace
from servers.databases.clickhouse_server import ClickHouse

BATCH = 500
"""Rows of a block, so that a split has several blocks."""


class TableOutput:
    """A table that remembers the blocks of a trial."""

    def __init__(self, workspace: Workspace) -> None:
        self.server: ClickHouse = workspace.servers["clickhouse"]
        self.table = f"{workspace.label}-out"
        self.server.rows(
            f"CREATE TABLE `{self.table}` (n Int64, text String) ENGINE = MergeTree ORDER BY n "
            "SETTINGS non_replicated_deduplication_window = 100000"
        )
        workspace.cleanup.callback(self.server.ask, f"DROP TABLE `{self.table}`")
        login = f"user: {self.server.user}, password: {self.server.password}"
        self.options = (
            f"type: clickhouse, urls: ['{self.server.address}'], {login}, table: {self.table}, batch: {{max_events: {BATCH}}}"
        )

    def delivered(self) -> Iterator[int]:
        return (int(row["n"]) for row in self.server.rows(f"SELECT n FROM `{self.table}`"))

    def check(self, total: int) -> None:
        """Check nothing more."""
