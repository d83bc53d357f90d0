"""Kernels that evaluate correlations: windows that slide event by event, windows that have closed, and what alerts show.

Rows are those of slots, one slot behind the other; the rows of slot ``s`` are ``starts[s]`` to ``starts[s + 1]``, in the order of
their times. ``member[s]`` is the number of its correlation in the arrays of `MemberTable`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.kernels import kernel, kernel_function
from etl.rules.correlation.member_table import AND, COUNT, EXPRESSION, MEAN, OR, ORDER, PERCENTILE, SUM, WORDS

_NEVER = -(1 << 62)
_LT, _LTE, _GT, _GTE, _EQ = (WORDS.index(word) for word in ("lt", "lte", "gt", "gte", "eq"))


@kernel
def sort_by_slot(slot: Any, ends: Any, order: Any) -> None:
    """int64[n]: row numbers in the order of their slots; rows of a slot keep their order. ``ends`` is set to where slots end."""
    for row in range(slot.shape[0]):
        ends[slot[row]] += 1
    total = np.int64(0)
    for number in range(ends.shape[0]):
        total, ends[number] = total + ends[number], total
    for row in range(slot.shape[0]):
        order[ends[slot[row]]] = row
        ends[slot[row]] += 1


@kernel
def is_sorted(starts: Any, micros: Any, offset: Any, order: Any) -> Any:
    """Whether the rows of each slot are in the order of times, offsets and rules."""
    for number in range(starts.shape[0] - 1):
        for at in range(starts[number] + 1, starts[number + 1]):
            if micros[at] != micros[at - 1]:
                if micros[at] < micros[at - 1]:
                    return False
            elif offset[at] < offset[at - 1] or (offset[at] == offset[at - 1] and order[at] < order[at - 1]):
                return False
    return True


@kernel_function
def _compared(word: Any, measure: Any, number: Any) -> Any:
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
def _completes(places: Any, begin: Any, end: Any, rank: Any, time: Any, span: Any, begun: Any) -> Any:
    """Whether an event is the last of all rules in their order. ``begun`` has, for each prefix of the order, the latest start of
    a run of events that completes it."""
    whole = False
    for place in range(end - begin - 1, -1, -1):
        if places[begin + place] != rank:
            continue
        start = begun[place - 1] if place > 0 else time
        if start == _NEVER or start <= time - span:
            continue
        begun[place] = max(begun[place], start)
        whole = whole or place == end - begin - 1
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


@kernel
def slide(
    starts: Any,
    member: Any,
    micros: Any,
    codes: Any,
    weights: Any,
    spans: Any,
    monotonic: Any,
    kinds: Any,
    words: Any,
    numbers: Any,
    program_starts: Any,
    program: Any,
    place_starts: Any,
    places: Any,
    counts: Any,
    stack: Any,
    begun: Any,
    burst_starts: Any,
    burst_counts: Any,
    since: Any,
    last: Any,
    alert_rows: Any,
    alert_firsts: Any,
    alert_measures: Any,
) -> Any:
    """Evaluate a condition with each event, over the events less than a span older; the first of a burst is an alert.

    ``codes`` are what distinct ones are counted of, below 0 for none; ``counts`` (zeros) has a place for each. The bursts of slot
    ``s`` are ``burst_counts[s]`` from ``burst_starts[s]`` on, with places for as many more as there are rows. Of an alert: the
    row that completes it, the first row of its window, its measure. Returns how many alerts there are.
    """
    alerts = np.int64(0)
    for slot in range(member.shape[0]):
        own = member[slot]
        if not monotonic[own]:
            continue
        kind, span, first = kinds[own], spans[own], starts[slot]
        total, distinct = 0.0, np.int64(0)
        for place in range(place_starts[own + 1] - place_starts[own]):
            begun[place] = _NEVER
        measure = 0.0
        for at in range(starts[slot], starts[slot + 1]):
            time = micros[at]
            while micros[first] <= time - span:
                total -= weights[first]
                if codes[first] >= 0:
                    counts[codes[first]] -= 1
                    distinct -= counts[codes[first]] == 0
                first += 1
            total += weights[at]
            if codes[at] >= 0:
                distinct += counts[codes[at]] == 0
                counts[codes[at]] += 1
            if kind == ORDER:
                measure = float(place_starts[own + 1] - place_starts[own])
                holds = _completes(places, place_starts[own], place_starts[own + 1], codes[at], time, span, begun)
            elif kind == EXPRESSION:
                measure = float(distinct)
                holds = _is_true(program, program_starts[own], program_starts[own + 1], counts, 1, stack)
            else:
                measure = total if kind in (COUNT, SUM) else float(distinct)
                holds = _compared(words[own], measure, numbers[own])
            if holds:
                end = burst_starts[slot] + burst_counts[slot]
                if _starts_burst(since, last, burst_starts[slot], end, time, span):
                    burst_counts[slot] += 1
                    alert_rows[alerts], alert_firsts[alerts], alert_measures[alerts] = at, first, measure
                    alerts += 1
        for at in range(first, starts[slot + 1]):
            if codes[at] >= 0:
                counts[codes[at]] = 0
    return alerts


@kernel
def close_windows(
    starts: Any, member: Any, micros: Any, spans: Any, monotonic: Any, watermark: Any, slots: Any, firsts: Any, ends: Any
) -> Any:
    """The windows that end by the watermark: they begin with a slot's first event, and follow one another. Returns how many."""
    count = np.int64(0)
    for slot in range(member.shape[0]):
        if monotonic[member[slot]]:
            continue
        at, span = starts[slot], spans[member[slot]]
        while at < starts[slot + 1] and micros[at] + span <= watermark:
            slots[count], firsts[count] = slot, at
            begin = micros[at]
            while at < starts[slot + 1] and micros[at] < begin + span:
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


@kernel
def measure_windows(
    firsts: Any,
    ends: Any,
    member: Any,
    codes: Any,
    weights: Any,
    ranked: Any,
    kinds: Any,
    words: Any,
    numbers: Any,
    shares: Any,
    program_starts: Any,
    program: Any,
    marks: Any,
    stack: Any,
    measures: Any,
    holds: Any,
) -> None:
    """The measures of whole windows, and whether they meet the conditions. ``ranked`` are the weights sorted in each window;
    ``marks`` (zeros) has a place for each code."""
    for window in range(firsts.shape[0]):
        own, first, end = member[window], firsts[window], ends[window]
        kind, stamp, distinct = kinds[own], window + 1, np.int64(0)
        for at in range(first, end):
            if codes[at] >= 0 and marks[codes[at]] != stamp:
                marks[codes[at]] = stamp
                distinct += 1
        if kind == COUNT:
            measures[window] = end - first
        elif kind in (SUM, MEAN):
            total = _sum(weights, first, end)
            measures[window] = total if kind == SUM else total / (end - first)
        elif kind == PERCENTILE:
            place = shares[own] * (end - first - 1)
            low = np.int64(np.floor(place))
            high = min(low + 1, end - first - 1)
            measures[window] = ranked[first + low] + (ranked[first + high] - ranked[first + low]) * (place - low)
        else:
            measures[window] = distinct
        if kind == EXPRESSION:
            holds[window] = _is_true(program, program_starts[own], program_starts[own + 1], marks, stamp, stack)
        else:
            holds[window] = _compared(words[own], measures[window], numbers[own])


@kernel
def first_distinct(firsts: Any, ends: Any, codes: Any, marks: Any, limit: Any, rows: Any, offsets: Any) -> None:
    """The rows of each window in which a code comes first, up to ``limit`` of them, one window behind the other; ``offsets`` is
    where they begin. Codes below 0 count for nothing; ``marks`` (zeros) has a place for each other one."""
    count = np.int64(0)
    for window in range(firsts.shape[0]):
        offsets[window] = count
        at = firsts[window]
        while at < ends[window] and count - offsets[window] < limit:
            if codes[at] >= 0 and marks[codes[at]] != window + 1:
                marks[codes[at]] = window + 1
                rows[count] = at
                count += 1
            at += 1
    offsets[firsts.shape[0]] = count
