"""The parser `user_agent`: fields of ECS, nothing fails, and the values that Elastic's processor gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.user_agent import UserAgent

FIREFOX = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:128.0) Gecko/20100101 Firefox/128.0"


def parse(*texts: str | None, **options: Any) -> list[dict[str, Any]]:
    step = UserAgent(**options)
    batch = pa.RecordBatch.from_pydict({step.field: pa.array(texts, pa.string())})
    events, rejects = step.open(batch.schema)(batch)
    assert not rejects
    assert events.schema == step.fields(batch.schema)
    return events.to_pylist()


def test_repeated_texts_stay_in_their_rows() -> None:
    names = [event["user_agent.name"] for event in parse(*[FIREFOX, None, "curl/8.5.0"] * 3)]

    assert names == ["Firefox", None, "curl"] * 3


def test_target_and_field() -> None:
    (event,) = parse("curl/8.5.0", field="agent", target="client.user_agent")

    assert event["client.user_agent.original"] == "curl/8.5.0"
    assert event["client.user_agent.version"] == "8.5.0"
    assert "agent" not in event


def test_no_rows() -> None:
    assert parse() == []


@settings(max_examples=50, deadline=None)
@given(st.lists(st.none() | st.text(max_size=40) | st.just("Mozilla/" * 50_000), max_size=5))
def test_no_text_raises_or_fails(texts: list[str | None]) -> None:
    assert len(parse(*texts)) == len(texts)


FLOOR = 0.95
"""Of the stored vectors, all of which pass today: the rules come with the package ``ua-parser-builtins`` and change with it."""


def trimmed(event: dict[str, Any]) -> dict[str, str]:
    return {name: value.rstrip(".") for name, value in event.items() if name.startswith("user_agent.") and value is not None}


def test_acceptance(acceptance: Path) -> None:
    """Versions are compared without the dot that Elastic's processor leaves at the end of ``81.0.``."""
    events = [event for path in sorted(acceptance.glob("filebeat/**/*-expected.json")) for event in json.loads(path.read_text())]
    agents = [event for event in events if "user_agent.name" in event and "user_agent.original" in event]
    found = parse(*(event["user_agent.original"] for event in agents))

    same = sum(trimmed(event) == trimmed(ours) for event, ours in zip(agents, found, strict=True))

    print(f"{same} of {len(agents)}")
    assert len(agents) >= 80
    assert same >= FLOOR * len(agents), f"{same} of {len(agents)}"
