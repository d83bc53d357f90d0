"""Pipelines with one stateful step and the state that their runs would have, and `etl state` on them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from state.lane import Lane

from etl.api import OFFSET, StatefulStep, WatermarkAdvance
from etl.cli.main import main
from etl.config.loader import load
from etl.delivery.dead_letters import SCHEMA
from etl.plan.frames import stages
from etl.plan.planner import plan
from etl.plan.segments import StepNode
from etl.running.state_folders import dead_letters, state_folder
from etl.spark.state.fingerprint import match_checkpoints
from etl.state.manifest import Manifest, Manifests, StageState

START = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = """
  - type: window
    time: at
    size: 1m
    late: 30s
    group_by: [source.ip]
    aggregates: {failures: count(*), users: count(distinct user)}
    having: failures >= 5
"""
DEDUPE = "\n  - {type: dedupe, keys: [source.ip], time: at, within: 1m}\n"
Event = tuple[str | None, float, str]
"""Address, seconds, user."""


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class Pipeline:
    """A pipeline file with one stateful step, and the state that its runs would have."""

    def __init__(self, folder: Path, steps: str) -> None:
        self.folder, self.state = folder, folder / "state"
        self.file = self.write(steps)
        pipeline = load(self.file, {})
        state = state_folder(pipeline, str(self.state))
        state.root.mkdir(exist_ok=True)
        planned, _ = match_checkpoints(plan(pipeline, dead_letters(pipeline, state), SCHEMA), state)
        [(query, stage)] = [(query, stage) for query in planned.queries for stage in stages(query.frame)]
        self.node: StepNode = stage.node
        assert isinstance(self.node.step, StatefulStep)
        self.manifests = Manifests(state.rows(query.name))
        self.commits = state.checkpoint(query.name) / "commits"
        self.commits.mkdir(parents=True)
        self.manifests.folder.mkdir(parents=True)
        self.lane = Lane(self.node.step, self.node.incoming, self.manifests.folder)

    def write(self, steps: str, name: str = "p.yaml") -> Path:
        path = self.folder / name
        fields = "{type: json, fields: {at: timestamp, source.ip: string, user: string}}"
        path.write_text(f"source: {{type: file, path: a.log}}\nsteps:\n  - {fields}{steps}sink: {{type: file, path: b.log}}\n")
        return path

    def read(self, *splits: Sequence[Event]) -> None:
        """A micro-batch."""
        rows = [
            [{"source.ip": ip, "at": at(second), "user": user, OFFSET: number} for number, (ip, second, user) in enumerate(split)]
            for split in splits
        ]
        self.results = self.lane.run(*rows)
        self.commit()

    def merge(self) -> None:
        """Merge all files into one, and remove those that no version names."""
        self.lane.kept = self.lane._merged(self.lane.kept)
        self.commit()

    def commit(self) -> None:
        state = StageState(self.lane.clock.now, self.lane.kept, self.lane.emission)
        self.manifests.write(self.lane.batches - 1, Manifest(self.lane.event_time, (state,)))
        (self.commits / str(self.lane.batches - 1)).touch()

    def resume(self) -> None:
        """Go on with the state on disk, as another run does."""
        found = self.manifests.read(self.lane.batches - 1).stage(0)
        self.lane.kept, self.lane.clock, self.lane.emission = found.files, WatermarkAdvance(now=found.watermark), found.emission


class Output:
    """Runs `etl state` in this process."""

    def __init__(self, captured: pytest.CaptureFixture[str]) -> None:
        self.captured = captured
        self.err = ""

    def __call__(self, command: str, pipeline: Pipeline, *words: str, file: Path | None = None, status: int = 0) -> str:
        return self.on(pipeline.state, command, file or pipeline.file, *words, status=status)

    def on(self, state: Path, command: str, file: Path, *words: str, status: int = 0) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["state", command, str(file), *words, "--state", str(state)])
        out, self.err = self.captured.readouterr()
        assert int(ended.value.code or 0) == status, self.err
        return out

    def rows(self, command: str, pipeline: Pipeline, *words: str, file: Path | None = None) -> list[dict[str, Any]]:
        out = self(command, pipeline, *words, "--format", "json", file=file)
        return [json.loads(line) for line in out.splitlines()]


def failures(rows: list[dict[str, Any]]) -> list[tuple[str, str, int, int]]:
    return [(row["window_start"][14:19], row["source"]["ip"], row["failures"], row["users"]) for row in rows]
