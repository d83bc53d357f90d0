"""Drops dead letters: settles them without a replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from etl.config.model import Pipeline
from etl.running.dead_letters.letter_files import letter_files
from etl.running.dead_letters.replay import remove_copies
from etl.running.dead_letters.settled_letters import SettledLetters, lines_by_file
from etl.running.messages import count
from etl.running.state_folders import dead_letters
from etl.spark.state.folder import StateFolder


@dataclass(frozen=True)
class Dropped:
    """What was dropped."""

    letters: int
    removed: str = ""
    """The file of the state folder that was removed, because all of its letters are settled."""

    def __str__(self) -> str:
        """As a message."""
        if not self.letters:
            return "no dead letters are chosen"
        dropped = f"dropped {count(self.letters)} dead letter{'' if self.letters == 1 else 's'}"
        return f"{dropped}; removed {self.removed}: all of its letters are settled" if self.removed else dropped


def drop_letters(
    pipeline: Pipeline,
    state: StateFolder,
    choose: Callable[[pa.RecordBatch], pa.RecordBatch],
    confirm: Callable[[int], None] = lambda letters: None,
) -> Dropped:
    """Settle the open letters that ``choose`` keeps. Needs the lock of the state folder: a run that is killed takes back lines
    that it has not committed.

    ``confirm`` gets the number of letters before anything changes, and raises if they are to stay. The file of the state folder
    is removed when all of its letters are settled; one that the option `dead_letters` names never is.
    Memory: a batch of letters, and 8 bytes for each letter that is dropped.
    """
    files, settled = letter_files(dead_letters(pipeline, state)), SettledLetters.load(state.root / "dead")
    lines = lines_by_file(choose(batch) for file in files for batch in settled.open(file))
    letters = sum(map(len, lines.values()))
    if not letters:
        return Dropped(0)
    confirm(letters)
    settled.drop(files, lines)
    own = [one for one in files if one.path == state.dead_letters]
    if not own or any(batch.num_rows for batch in settled.open(own[0])):
        return Dropped(letters)
    state.dead_letters.unlink()  # its sink begins a new one
    remove_copies(state)
    return Dropped(letters, str(state.dead_letters))
