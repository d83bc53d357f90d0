"""Lines at the end of a run about steps that count: rules that matched most, tables of look-ups."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from etl.receipts import OTHERS
from etl.spark.reports.step_measures import StepMeasures
from etl.spark.reports.totals import Totals

MAX_RULES = 10
"""Rules that are listed; the others are added up."""

SLOW, MAX_SLOW_RULES = 0.1, 3
"""Minimum share of the time of a slow rule, and maximum number of slow rules that are named."""

_WIDTH = 9


def step_summary(totals: Totals) -> Iterator[str]:
    """Lines of text; none when no step counts."""
    for step, measured in totals.measured.items():
        if "matches" in measured.sums:
            yield from _rules(step, measured, totals)
        elif "found" in measured.sums:
            yield from _look_ups(step, measured, totals)


def _rules(step: str, measured: StepMeasures, totals: Totals) -> Iterator[str]:
    matches, state = measured.sums["matches"], measured.state
    events = totals.steps[step].incoming if step in totals.steps else 0
    whole = sum(matches.values())
    last = float(state["rules"])
    rules = f"{len(matches):,} of {_of(last, 'rule')}"
    if len(matches) > last:  # some of them are gone by now
        rules = f"{_of(len(matches), 'rule')}, more than the {last:,.0f} at the end"
    found = f"{_of(whole, 'match', 'matches')} by {rules}"
    yield f"  {step}: {_of(events, 'event')}, {found}, version {state['version']}"
    if state.get("left_out"):
        yield f"    {_of(state['left_out'], 'rule')} left out: `etl rules check` says why"
    if state.get("refused"):
        yield f"    {_of(state['refused'], 'changed file')} refused, rules as before: {state['refused_because']}"
    yield from _format_matches(measured, whole)
    shares = [(name, share) for name, share in _shares(measured).items() if share >= SLOW and name != OTHERS]
    if shares:
        slowest = sorted(shares, key=lambda one: -one[1])[:MAX_SLOW_RULES]
        yield "    slowest: " + ", ".join(f"{name} {share:.0%} of the time" for name, share in slowest)


def _format_matches(measured: StepMeasures, whole: float) -> Iterator[str]:
    top = measured.top("matches", MAX_RULES)
    if not top:
        return
    shares = _shares(measured)
    tried = measured.sums.get("tried", {})
    yield f"    {'matches':>{_WIDTH}}  {'tried on':>{_WIDTH}}  {'time':>4}"
    for name, count in top:
        share = shares.get(name, 0.0)
        part = f"{share:.0%}" if share >= 0.01 else "<1%"
        yield f"    {count:>{_WIDTH},.0f}  {tried.get(name, 0):>{_WIDTH},.0f}  {part:>4}  {name}"
    rest = len({*measured.sums["matches"], *tried}) - len(top)
    if rest:
        listed = sum(tried.get(name, 0) for name, _ in top)
        matches, tries = whole - sum(count for _, count in top), sum(tried.values()) - listed
        yield f"    {matches:>{_WIDTH},.0f}  {tries:>{_WIDTH},.0f}        {_of(rest, 'further rule')}"


def _shares(measured: StepMeasures) -> dict[str, float]:
    """Share of the step's time that each rule took, of rules with more than a hundredth in a split."""
    seconds = measured.sums.get("seconds", {})
    whole = sum(seconds.values())
    return {name: amount / whole for name, amount in seconds.items()} if whole else {}


def _look_ups(step: str, measured: StepMeasures, totals: Totals) -> Iterator[str]:
    for name, found in measured.sums["found"].items():
        events = found + measured.sums.get("missed", {}).get(name, 0)
        line = f"  {step}: {found:,.0f} of {_of(events, 'event')} found in table {name!r}"
        table = totals.tables.get(name)
        if table is not None and table.built is not None:
            line += f", {_of(table.rows, 'row')}, read {_ago(time.time() - table.built)} ago"
        yield line + (f"; it could not be read again: {table.error}" if table is not None and table.error else "")


def _ago(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _of(number: Any, thing: str, things: str = "") -> str:
    return f"{number:,.0f} {thing if number == 1 else things or thing + 's'}"
