"""What `etl explain` says of the state of each step: what is kept, and until when."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from state.lane import Lane

from etl.api import OFFSET, StatefulStep
from etl.catalogue import installed
from etl.steps.heartbeats import ARRIVAL

INCOMING = pa.schema({"k": pa.string(), "v": pa.int64(), "t": pa.timestamp("us", "UTC")})
KEYED = {"keys": ["k"], "time": "t"}
COUNT = {"aggregates": {"n": "count(*)"}}


def made(type_: str, options: dict[str, Any]) -> StatefulStep:
    step = installed().families["step"][type_].model_validate({"type": type_, **options})
    assert isinstance(step, StatefulStep)
    return step


@pytest.mark.parametrize(
    ("type_", "options", "note"),
    [
        (
            "window",
            {"time": "t", "size": "1h", **COUNT},
            "keeps a row of each group and pane, until the watermark has passed its",
        ),
        ("window", {"time": "t", "gap": "5m", **COUNT}, "keeps a row of each session, until the watermark has passed its end"),
        ("window", {"emit": "on_change", **COUNT}, "keeps the state of every group for ever"),
        ("dedupe", {**KEYED, "within": "1h"}, "keeps 32 bytes for each event that passed, until the watermark is 1h later"),
        ("dedupe", {**KEYED, "within": "1h", "keep": "last"}, "keeps the last event of each key in a span of 1h, until"),
        ("throttle", {**KEYED, "limit": 3, "every": "1m"}, "keeps 32 bytes for each key and micro-batch in a span of 1m, until"),
        ("suppress", {**KEYED, "within": "1h"}, "until the watermark is 1h after it passed, and 1d longer where"),
        ("suppress", {**KEYED, "within": "1h", "summary": "s"}, "keeps a row of each key and its last suppressed event, until"),
        ("top", {**KEYED, "by": "v", "size": "1h"}, "keeps the best events of each key and span of 1h, until"),
        ("top", {**KEYED, "by": "v"}, "keeps the state of every key for ever"),
        ("over", {**KEYED, "within": "1h", **COUNT}, "keeps the values of each event until the watermark is 1h later"),
        ("over", {**KEYED, "rows": 3, "ttl": "7d", **COUNT}, "keeps the state of a key for 7d of event time"),
    ],
)
def test_a_step_says_what_it_keeps_and_until_when(type_: str, options: dict[str, Any], note: str) -> None:
    assert note in " ".join(made(type_, options).notes(INCOMING))


def test_a_total_of_no_events_gives_no_result(tmp_path: Path) -> None:
    incoming = INCOMING.append(pa.field(ARRIVAL, pa.timestamp("us", "UTC")))
    lane = Lane(made("window", {"emit": "on_change", **COUNT}), incoming, tmp_path)

    assert lane.run([]) == []
    assert [row["n"] for row in lane.run([{"k": "a", ARRIVAL: datetime(2026, 1, 1, tzinfo=UTC), OFFSET: 0}])] == [1]
