"""Kernels that evaluate correlations: windows that slide event by event, and windows that have closed.

A slot holds the events of one group of one correlation. Kernels get the events of all slots, slot after slot: those of slot ``s``
are rows ``starts[s]`` to ``starts[s + 1]``, ordered by time. ``member[s]`` is the number of its correlation in `Conditions`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from etl.columns.kernels import kernel, kernel_function
from etl.rules.correlation.member_table import AND, COUNT, EXPRESSION, MEAN, OR, ORDER, PERCENTILE, SUM, WORDS

_NEVER = -(1 << 62)
_LT, _LTE, _GT, _GTE, _EQ = (WORDS.index(word) for word in ("lt", "lte", "gt", "gte", "eq"))


class SlotEvents(NamedTuple):
    """The events of slots."""

    starts: Any
    """int64[slots + 1]"""
    member: Any
    """int64[slots]"""
    micros: Any
    codes: Any
    """int64[n]: numbers of the values whose distinct count is compared; negative for null."""
    weights: Any
    """float64[n]"""


class Conditions(NamedTuple):
    """The condition of each correlation, by its number: see `MemberTable`."""

    spans: Any
    monotonic: Any
    kinds: Any
    words: Any
    thresholds: Any
    shares: Any
    program_starts: Any
    program: Any
    order_starts: Any
    orders: Any


class BurstBuffer(NamedTuple):
    """Bursts: times at which the condition of a slot holds, less than a timespan apart; each burst gives one alert.

    Those of slot ``s`` are ``counts[s]`` entries from ``starts[s]`` on. After them is room for one more for each of its events.
    """

    starts: Any
    counts: Any
    since: Any
    last: Any


class AlertBuffer(NamedTuple):
    """Alerts: the row that completes each, the first row of its window, its measure."""

    rows: Any
    firsts: Any
    measures: Any


class ScratchBuffers(NamedTuple):
    """Memory that kernels reuse for each slot, allocated once."""

    counts: Any
    """int64[codes], zeros."""
    stack: Any
    begun: Any


@kernel_function
def _compare(word: Any, measure: Any, number: Any) -> Any:
    if word == _GTE:
        return measure >= number
    if word == _GT:
        return measure > number
    if word == _LT:
        return measure < number
    if word == _LTE:
        return measure <= number
    return measure == number if word == _EQ else measure != number


@kernel_function
def _is_true(program: Any, begin: Any, end: Any, present: Any, stamp: Any, stack: Any) -> Any:
    """Evaluate a condition in postfix order; a rule is present if its count, or its mark, is at least ``stamp``."""
    top = np.int64(0)
    for at in range(begin, end):
        word, number = program[at, 0], program[at, 1]
        if word >= 0:
            stack[top] = present[word] >= stamp
            top += 1
            continue
        found = np.int64(0)
        for operand in range(number):
            found += stack[top - 1 - operand]
        top -= number
        if word == AND:
            stack[top] = found == number
        elif word == OR:
            stack[top] = found > 0
        else:
            stack[top] = found == 0
        top += 1
    return stack[0] != 0


@kernel_function
def _completes(order: Any, begin: Any, end: Any, rank: Any, time: Any, span: Any, begun: Any) -> Any:
    """Whether an event is the last of all rules in their order. ``begun`` has, for each prefix of the order, the latest start of
    a run of events that completes it."""
    whole = False
    for rule in range(end - begin - 1, -1, -1):
        if order[begin + rule] != rank:
            continue
        start = begun[rule - 1] if rule > 0 else time
        if start == _NEVER or start <= time - span:
            continue
        begun[rule] = max(begun[rule], start)
        whole = whole or rule == end - begin - 1
    return whole


@kernel_function
def _starts_burst(since: Any, last: Any, begin: Any, end: Any, time: Any, span: Any) -> Any:
    """Whether a burst starts at this time; a known burst that the time belongs to is prolonged."""
    for at in range(end - 1, begin - 1, -1):
        if since[at] - span < time and time < last[at] + span:
            since[at], last[at] = min(since[at], time), max(last[at], time)
            return False
    since[end] = last[end] = time
    return True


@kernel_function
def _remove_old(rows: Any, first: Any, oldest: Any, total: Any, distinct: Any, counts: Any) -> Any:
    """Take events up to a time out of a window."""
    while rows.micros[first] <= oldest:
        code = rows.codes[first]
        total -= rows.weights[first]
        if code >= 0:
            counts[code] -= 1
            distinct -= counts[code] == 0
        first += 1
    return first, total, distinct


@kernel_function
def _holds(own: Any, at: Any, rows: Any, conditions: Any, total: Any, distinct: Any, scratch: Any) -> Any:
    """Whether the window that ends with an event meets the condition, and its measure."""
    kind = conditions.kinds[own]
    if kind == ORDER:
        begin, end = conditions.order_starts[own], conditions.order_starts[own + 1]
        span = conditions.spans[own]
        return _completes(conditions.orders, begin, end, rows.codes[at], rows.micros[at], span, scratch.begun), float(end - begin)
    if kind == EXPRESSION:
        begin, end = conditions.program_starts[own], conditions.program_starts[own + 1]
        return _is_true(conditions.program, begin, end, scratch.counts, 1, scratch.stack), float(distinct)
    measure = total if kind in (COUNT, SUM) else float(distinct)
    return _compare(conditions.words[own], measure, conditions.thresholds[own]), measure


@kernel_function
def _slide_slot(slot: Any, rows: Any, conditions: Any, bursts: Any, found: Any, alerts: Any, scratch: Any) -> Any:
    """See `slide`, for one slot; ``alerts`` is how many there are of those before."""
    own, first, end = rows.member[slot], rows.starts[slot], rows.starts[slot + 1]
    span, counts = conditions.spans[own], scratch.counts
    total, distinct = 0.0, np.int64(0)
    for rule in range(conditions.order_starts[own + 1] - conditions.order_starts[own]):
        scratch.begun[rule] = _NEVER
    for at in range(first, end):
        time = rows.micros[at]
        first, total, distinct = _remove_old(rows, first, time - span, total, distinct, counts)
        total += rows.weights[at]
        if rows.codes[at] >= 0:
            distinct += counts[rows.codes[at]] == 0
            counts[rows.codes[at]] += 1
        holds, measure = _holds(own, at, rows, conditions, total, distinct, scratch)
        if holds:
            begin = bursts.starts[slot]
            if _starts_burst(bursts.since, bursts.last, begin, begin + bursts.counts[slot], time, span):
                bursts.counts[slot] += 1
                found.rows[alerts], found.firsts[alerts], found.measures[alerts] = at, first, measure
                alerts += 1
    for at in range(first, end):
        if rows.codes[at] >= 0:
            counts[rows.codes[at]] = 0
    return alerts


@kernel
def slide(rows: Any, conditions: Any, bursts: Any, found: Any, scratch: Any) -> Any:
    """Evaluate a condition with each event, over the events less than a span older; the first of a burst is an alert. Returns how
    many alerts there are."""
    alerts = np.int64(0)
    for slot in range(rows.member.shape[0]):
        if conditions.monotonic[rows.member[slot]]:
            alerts = _slide_slot(slot, rows, conditions, bursts, found, alerts, scratch)
    return alerts


@kernel
def close_windows(rows: Any, conditions: Any, watermark: Any, slots: Any, firsts: Any, ends: Any) -> Any:
    """The windows that end by the watermark: they begin with a slot's first event, and follow one another. Returns how many."""
    count, micros = np.int64(0), rows.micros
    for slot in range(rows.member.shape[0]):
        own = rows.member[slot]
        if conditions.monotonic[own]:
            continue
        at, span, end = rows.starts[slot], conditions.spans[own], rows.starts[slot + 1]
        while at < end and micros[at] + span <= watermark:
            slots[count], firsts[count] = slot, at
            begin = micros[at]
            while at < end and micros[at] < begin + span:
                at += 1
            ends[count] = at
            count += 1
    return count


@kernel_function
def _sum(weights: Any, first: Any, end: Any) -> Any:
    """With the rounding errors of all additions added at the end."""
    total, errors = 0.0, 0.0
    for at in range(first, end):
        added = total + weights[at]
        shift = added - total
        errors += (total - (added - shift)) + (weights[at] - shift)
        total = added
    return total + errors


@kernel_function
def _percentile(ranked: Any, first: Any, end: Any, share: Any) -> Any:
    """Between two of sorted values."""
    rank = share * (end - first - 1)
    low = np.int64(np.floor(rank))
    high = min(low + 1, end - first - 1)
    return ranked[first + low] + (ranked[first + high] - ranked[first + low]) * (rank - low)


@kernel_function
def _measure(kind: Any, first: Any, end: Any, rows: Any, ranked: Any, share: Any, distinct: Any) -> Any:
    if kind == COUNT:
        return float(end - first)
    if kind == SUM:
        return _sum(rows.weights, first, end)
    if kind == MEAN:
        return _sum(rows.weights, first, end) / (end - first)
    if kind == PERCENTILE:
        return _percentile(ranked, first, end, share)
    return float(distinct)


@kernel
def measure_windows(
    firsts: Any, ends: Any, member: Any, rows: Any, ranked: Any, conditions: Any, scratch: Any, measures: Any, holds: Any
) -> None:
    """The measures of whole windows, and whether they meet the conditions. ``ranked`` are the weights sorted in each window."""
    marks = scratch.counts
    for window in range(firsts.shape[0]):
        own, first, end = member[window], firsts[window], ends[window]
        stamp, distinct = window + 1, np.int64(0)
        for at in range(first, end):
            code = rows.codes[at]
            if code >= 0 and marks[code] != stamp:
                marks[code] = stamp
                distinct += 1
        kind = conditions.kinds[own]
        measures[window] = _measure(kind, first, end, rows, ranked, conditions.shares[own], distinct)
        if kind == EXPRESSION:
            begin, stop = conditions.program_starts[own], conditions.program_starts[own + 1]
            holds[window] = _is_true(conditions.program, begin, stop, marks, stamp, scratch.stack)
        else:
            holds[window] = _compare(conditions.words[own], measures[window], conditions.thresholds[own])
