"""The receipts of the reading tasks of a micro-batch in files, so that the task that ends last can run the parts itself."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from etl.receipts import Receipt
from etl.spark.query_context import ensure_folder

_CLAIM = "claim"
"""The file of the task that runs the parts."""


@dataclass(frozen=True)
class StoredReceipts:
    """The receipts of one micro-batch, in its staging folder, which all tasks reach."""

    staging: Path

    @property
    def _folder(self) -> Path:
        return self.staging / "read"

    def clear(self) -> None:
        """Remove those of an attempt that failed; called before tasks run."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, receipt: Receipt, order: int, tasks: int) -> list[Receipt] | None:
        """Store the receipt of a task, one of ``tasks``. Returns those of all tasks, in their order, if it is the last one.

        At most one task gets them, even if two end at the same time or one runs again: where none does, the driver has them.
        """
        folder = ensure_folder(self._folder)
        temporary = folder / f"{order}.{os.getpid()}-{os.urandom(4).hex()}"
        temporary.write_bytes(receipt.encode())
        temporary.rename(folder / str(order))
        if any(not (folder / str(number)).exists() for number in reversed(range(tasks))):
            return None
        try:
            os.close(os.open(folder / _CLAIM, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return None
        return [Receipt.decode((folder / str(number)).read_bytes()) for number in range(tasks)]
