"""What a command says while it is busy."""

from __future__ import annotations

import threading
import time

import pytest

from etl.cli import activity
from etl.columns import compile_events


def wait_for(capsys: pytest.CaptureFixture[str], text: str) -> str:
    """What was written so far, once it has the text; fails after a minute."""
    written = ""
    end = time.monotonic() + 60
    while text not in written:
        assert time.monotonic() < end, written
        threading.Event().wait(0.01)
        written += capsys.readouterr().err
    return written


def test_the_activity_is_written_repeatedly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(activity, "LOG_SECONDS", 0.01)

    with activity.activity("reading x.log") as doing:
        wait_for(capsys, "reading x.log\n")
        doing("trying the parser json")
        wait_for(capsys, "trying the parser json\n")
        compile_events.begin_compiling("walk")
        wait_for(capsys, "trying the parser json: compiling walk for this machine, once, 0 s\n")
        compile_events.end_compiling()
        wait_for(capsys, "trying the parser json\n")

    assert compile_events.watchers == []


def test_a_quick_command_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with activity.activity("reading x.log"):
        pass

    assert capsys.readouterr().err == ""
