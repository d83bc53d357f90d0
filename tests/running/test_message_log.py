"""Messages of runs in the state folder of their pipeline."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from etl.running.message_log import MessageLog, MessageLogs, read_messages
from etl.running.messages import Message


def test_each_stored_message_has_the_name_of_its_pipeline(tmp_path: Path) -> None:
    runs: Any = [
        SimpleNamespace(plan=SimpleNamespace(pipeline=name), state=SimpleNamespace(messages=tmp_path / f"{name}.jsonl"))
        for name in ("a", "b")
    ]
    shown: list[Message] = []
    take = MessageLogs(runs, shown.append)

    for message in (
        Message("running", "running a, b"),
        Message("note", "of b", pipeline="b"),
        Message("note", "x", pipeline="c"),
    ):
        take(message)

    stored = {name: [(one["pipeline"], one["message"]) for one in read_messages(tmp_path / f"{name}.jsonl", 9)] for name in "ab"}
    assert stored == {"a": [("a", "running a, b")], "b": [("b", "running a, b"), ("b", "of b")]}
    assert [one.pipeline for one in shown] == ["", "b"]


def test_ids_grow_and_times_are_true_after_the_clock_was_set_back(tmp_path: Path) -> None:
    path = tmp_path / "messages.jsonl"
    first = MessageLog(path).append(Message("a", "in the future"))
    path.write_text(path.read_text().replace(str(first["id"]), str(first["id"] + 10**15)))

    log = MessageLog(path)
    second, third = log.append(Message("b", "now")), log.append(Message("c", "now"))

    assert third["id"] > second["id"] > first["id"] + 10**15
    assert second["time"][:4] == first["time"][:4]
    assert [one["event"] for one in read_messages(path, 10, first["id"] + 10**15)] == ["b", "c"]
