"""Tables of a lake, in kill tests."""

from __future__ import annotations

import json
from collections.abc import Iterator

from deltalake import DeltaTable
from kill_table import Workspace
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

ENOUGH_TO_MERGE = 100_000
"""Events of a run that lasts long enough for files to be merged."""


class DeltaOutput:
    """A table of Delta Lake in a folder, whose small files are merged during the runs."""

    def __init__(self, workspace: Workspace) -> None:
        self.path = str(workspace.folder / f"{workspace.label}-delta")
        self.options = f"type: lake, format: delta, table: '{self.path}', compact: {{every: 2s, target_size: 16MiB}}"

    def delivered(self) -> Iterator[int]:
        yield from DeltaTable(self.path).to_pyarrow_table(columns=["n"])["n"].to_pylist()

    def check(self, total: int) -> None:
        """Each file that the table names is there, and files have been merged in a run of some length."""
        table = DeltaTable(self.path)
        assert table.count() == total
        assert total < ENOUGH_TO_MERGE or any(commit["operation"] == "OPTIMIZE" for commit in table.history())


class IcebergOutput:
    """A table of Iceberg in a folder, with a catalog in SQLite, whose small files are merged during the runs."""

    def __init__(self, workspace: Workspace) -> None:
        home = workspace.folder / f"{workspace.label}-iceberg"
        home.mkdir()
        self.catalog = {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"file://{home}"}
        self.options = (
            f"type: lake, format: iceberg, table: logs.events, catalog: {json.dumps(self.catalog)}, "
            "partition_by: ['bucket(2, n)'], compact: {every: 2s, target_size: 16MiB}"
        )

    def delivered(self) -> Iterator[int]:
        yield from self._table().scan(selected_fields=("n",)).to_arrow()["n"].to_pylist()

    def check(self, total: int) -> None:
        """The history says which micro-batches it has, each once, and files have been merged in a run of some length."""
        summaries = [one.summary for one in self._table().metadata.snapshots if one.summary is not None]
        batches = [(one.get("sluice.query"), one.get("sluice.batch")) for one in summaries if one.get("sluice.query")]
        assert len(batches) == len(set(batches))
        assert total < ENOUGH_TO_MERGE or any(one.get("sluice.compact") for one in summaries)

    def _table(self) -> Table:
        return load_catalog("default", **self.catalog).load_table("logs.events")
