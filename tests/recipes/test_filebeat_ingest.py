"""Ingest pipelines of Filebeat's modules: imported, and run over the modules' own logs, they give the modules' own events."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import filebeat_events as filebeat
import pytest

from etl.migration.ingest.documents import IngestFiles
from etl.migration.ingest.pipeline import IngestImport
from etl.migration.sampling import json_members

pytestmark = pytest.mark.slow

MIN_EQUAL = 0.96
"""Share of events that are equal as a whole. Differing are: members that are an array in some events and a text in others
(kibana), captures with a type in one pattern and none in another, empty captures, which are null here, and URLs that Java's
parser reads in another way."""


def filesets(folder: Path) -> Iterator[tuple[str, IngestFiles]]:
    for path in sorted(folder.glob("*/*")):
        if path.is_dir():
            read = IngestFiles()
            read.add(next(iter(path.glob("pipeline.*"))))
            read.add_called()
            yield f"{path.parent.name}/{path.name}", read


def imported(read: IngestFiles, lines: list[str]) -> IngestImport:
    ingest = IngestImport(read.pipelines, read.locate, "${TIMEZONE:-Etc/GMT+2}", {"message": json_members(lines)})
    ingest.run(read.main)
    return ingest


def test_events_are_those_of_filebeat(acceptance: Path, tmp_path: Path) -> None:
    settings = json.loads((acceptance / "filebeat" / "reader_settings.json").read_text())
    index = json.loads((acceptance / "filebeat" / "index.json").read_text())
    cases: list[Mapping[str, Any]] = index if isinstance(index, list) else index["cases"]
    shares: dict[str, tuple[int, int]] = {}
    for fileset, read in filesets(acceptance / "filebeat_ingest"):
        own = [case for case in cases if case["log"].startswith(f"{fileset}/")]
        logs = [acceptance / "filebeat" / case["log"] for case in own]
        ingest = imported(read, [line for log in logs for line in log.read_text().splitlines()])
        file = filebeat.write_pipeline(
            tmp_path / f"{fileset.replace('/', '-')}.yaml", ingest.draft, settings["filesets"].get(fileset, {})
        )
        for case, log in zip(own, logs, strict=True):
            expected = json.loads((acceptance / "filebeat" / case["expected"]).read_text())
            equal = filebeat.count_equal(file, log, expected, dict(os.environ))
            before = shares.get(fileset, (0, 0))
            shares[fileset] = (before[0] + equal, before[1] + len(expected))
    equal, total = (sum(counts) for counts in zip(*shares.values(), strict=True))
    print(f"{equal} of {total} events are equal", *(f"{name} {one[0]} of {one[1]}" for name, one in shares.items()), sep="\n")

    assert equal >= MIN_EQUAL * total


def test_without_a_sample_nothing_is_left(acceptance: Path) -> None:
    left = [str(one) for _, read in filesets(acceptance / "filebeat_ingest") for one in imported(read, []).report.left]

    assert left == []
