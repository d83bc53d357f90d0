"""Runs of which much becomes dead letters."""

from __future__ import annotations

import io
from pathlib import Path

import click
import pytest
from fakes import Lines, make_plan

from etl.api import EtlError
from etl.catalogue import installed
from etl.cli.run.dead_letter_share import ShareType, summarize_dead_letters
from etl.cli.run.end_of_run import fail_for_dead_letters
from etl.cli.run.progress import Progress
from etl.receipts import Counts, RejectCount
from etl.running.dead_letter_share import DeadLetterShare
from etl.running.planning import RunRequest
from etl.spark.run import PipelineRun, RunMode
from etl.spark.state.folder import StateFolder

GROK = installed().families["step"]["grok"].model_validate({"patterns": ["%{INT:n:int} %{IP:ip}", "%{INT:n:int} took %{IP:ip}"]})
AT = ("all[0] grok", "grok-failed")


@pytest.fixture
def one(tmp_path: Path) -> PipelineRun:
    return PipelineRun(make_plan({"log": Lines()}, {"all": ("log", [GROK])}, {"out": "all"}), StateFolder(tmp_path), RunMode())


def add(one: PipelineRun, read: int, dead: int) -> None:
    one.totals.read.setdefault("log", Counts()).add(Counts(read, read))
    one.totals.dead += dead
    if dead:
        one.totals.rejected.setdefault(AT, RejectCount()).add(RejectCount(dead, "does not match", "12 took 5 ms"))


def reported_lines(watch: DeadLetterShare) -> list[str]:
    out = io.StringIO()
    watch.check(Progress("text", False, False, out).report)
    return out.getvalue().splitlines()


def test_a_run_warns_once_that_a_tenth_of_its_events_are_dead_letters(one: PipelineRun) -> None:
    watch = DeadLetterShare(one, None)
    add(one, 1000, 99)
    assert reported_lines(watch) == []

    add(one, 1000, 150)

    assert reported_lines(watch) == [
        "249 of 2,000 events became dead letters (12%), 15% of the last 1,000: at all[0] grok, does not match"
    ]
    assert reported_lines(watch) == []
    assert not one.stopped


def test_few_events_are_no_share_until_the_run_ends(one: PipelineRun) -> None:
    watch = DeadLetterShare(one, 0.5)
    add(one, 3, 3)

    assert reported_lines(watch) == []
    assert watch.check_end()


def test_a_change_is_noticed_after_any_number_of_good_events(one: PipelineRun) -> None:
    watch = DeadLetterShare(one, 0.5)
    add(one, 10_000_000, 0)
    reported_lines(watch)
    add(one, 2000, 1500)

    (line,) = reported_lines(watch)

    assert line == (
        "stopping: 1,500 of 10,002,000 events became dead letters (0.01%), 75% of the last 2,000, more than --max-dead 0.5"
    )
    assert one.stopped


@pytest.mark.parametrize(("maximum", "exceeds"), [(0.5, False), (0.49, True), (0.0, True), (1.0, False)])
def test_more_than_the_share_fails_the_run(one: PipelineRun, maximum: float, exceeds: bool) -> None:
    watch = DeadLetterShare(one, maximum)
    add(one, 10, 5)
    request = RunRequest(once=True, max_dead=maximum)

    assert watch.check_end() == exceeds
    if exceeds:
        with pytest.raises(EtlError, match=r"^pipeline .*: 5 of 10 events became dead letters \(50%\), more than --max-dead"):
            fail_for_dead_letters([one], [watch], request, several=True)
    else:
        fail_for_dead_letters([one], [watch], request, several=True)


def test_a_run_without_events_has_no_share(one: PipelineRun) -> None:
    assert not DeadLetterShare(one, 0.0).check_end()


def test_the_summary_has_reason_example_and_where_matching_stops(one: PipelineRun) -> None:
    add(one, 20, 15)
    one.totals.rejected["sink out", "refused"] = RejectCount(1, "too\nlong", "{}")

    lines = list(summarize_dead_letters(DeadLetterShare(one, None), one))

    assert lines == [
        "15 of 20 events became dead letters (75%):",
        "  15 at all[0] grok: does not match (grok-failed), such as",
        "    12 took 5 ms",
        "    matches `%{INT:n:int} took ` and then not %{IP:ip} at column 9: `etl grok` shows more",
        "  1 at sink out: too·long (refused), such as",
        "    {}",
    ]


def test_a_summary_of_few_dead_letters_is_quiet(one: PipelineRun) -> None:
    add(one, 1000, 99)

    assert list(summarize_dead_letters(DeadLetterShare(one, None), one)) == []


@pytest.mark.parametrize(("text", "share"), [("0.1", 0.1), ("10%", 0.1), ("0", 0.0), ("100 %", 1.0)])
def test_a_share_is_a_number_or_a_percentage(text: str, share: float) -> None:
    assert ShareType().convert(text, None, None) == share


@pytest.mark.parametrize("text", ["10", "-1%", "a tenth", "nan", "110%"])
def test_a_wrong_share_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.UsageError, match="is not a share of events: write a number from 0 to 1, or a percentage"):
        ShareType().convert(text, None, None)


def test_the_warning_has_a_colour_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: True)

    Progress("text", False, False, out).say("dead_letters", "much\n  more", "warning")

    assert out.getvalue() == f"{click.style('much', fg='yellow', bold=True)}\n  more\n"
