"""Sources of the journal in configurations of Fluent Bit and Vector → pipelines, and what these make of a journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from running import Etl

SAMPLE = Path(__file__).parents[2] / "samples" / "system.journal"

FLUENT_BIT = """
[INPUT]
    Name systemd
    Tag  host.*
    Systemd_Filter _SYSTEMD_UNIT=ssh.service
    Systemd_Filter SYSLOG_IDENTIFIER=kernel
    Read_From_Tail On
    Max_Entries 100
    {names}
[FILTER]
    Name  grep
    Match *
    Regex {field} publickey|BAR
[OUTPUT]
    Name  stdout
    Match *
"""

VECTOR = """
sources:
  logs:
    type: journald
    include_units: [ssh, cron.service]
    include_matches: {_TRANSPORT: [kernel]}
    exclude_units: [cron]
    exclude_matches: {_TRANSPORT: [stdout]}
    since_now: true
    batch_size: 8
transforms:
  named:
    type: remap
    inputs: [logs]
    source: |
      .level = to_int!(.PRIORITY)
      .facility = .SYSLOG_FACILITY
sinks:
  out:
    type: console
    inputs: [named]
    encoding: {codec: json}
"""


def run_sample(etl: Etl, folder: Path, name: str, text: str, expected: dict[str, Any]) -> dict[str, Any]:
    """Import a configuration; its pipeline gives the expected events of the sample."""
    (folder / name).write_text(text)
    made = etl.here("import", name)
    assert made.err.startswith(("3 of 3", "4 of 4")), made.err
    pipeline = yaml.safe_load(made.out)
    (source,) = pipeline["sources"]
    cases = {"tests": {"sample": {"input": {source: {"file": str(SAMPLE)}}, "expect": expected}}}
    (folder / "job.yaml").write_text(made.out + yaml.safe_dump(cases))
    found = etl.here("test", "job.yaml")
    assert found.status == 0, found.out + found.err
    assert etl.here("lint", "job.yaml").status == 0
    return pipeline["sources"][source]


@pytest.mark.parametrize(
    ("names", "field", "expected"),
    [
        ("", "MESSAGE", {"SYSLOG_IDENTIFIER": "kernel", "_TRANSPORT": "kernel", "PRIORITY": "4"}),
        ("Lowercase On\n    Strip_Underscores On", "message", {"syslog_identifier": "kernel", "transport": "kernel"}),
    ],
)
def test_an_input_of_fluent_bit(etl: Etl, tmp_path: Path, names: str, field: str, expected: dict[str, Any]) -> None:
    source = run_sample(
        etl,
        tmp_path,
        "fluent.conf",
        FLUENT_BIT.format(names=names, field=field),
        {"stdout": {"count": 2, "contains": [expected]}},
    )

    assert (source["type"], source["path"], source["start"]) == ("journald", "/var/log/journal", "end")


def test_a_source_of_vector(etl: Etl, tmp_path: Path) -> None:
    kernel = {"host": "gate01", "level": 4, "_TRANSPORT": "kernel", "facility": "0"}
    source = run_sample(etl, tmp_path, "vector.yaml", VECTOR, {"out": {"contains": [kernel]}})

    assert source["start"] == "end"
    assert "SYSLOG_FACILITY" in source["fields"], "a field that a program names is declared"


def test_a_filter_of_one_field_is_one_of_the_source(etl: Etl, tmp_path: Path) -> None:
    (tmp_path / "vector.yaml").write_text(VECTOR.replace("include_matches: {_TRANSPORT: [kernel]}", ""))

    made = yaml.safe_load(etl.here("import", "vector.yaml").out)

    assert made["sources"]["logs_entries"]["match"] == {"_SYSTEMD_UNIT": ["ssh.service", "cron.service"]}
