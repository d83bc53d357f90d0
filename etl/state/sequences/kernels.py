"""Kernels that find the matches of a pattern in the events of each key, which are in order.

A *run* begins at an event and goes on as long as the time between its first event and the next one is shorter than ``within``.
An event that fits is taken; where it fits several elements, the run goes on in several *branches*, in the order of preference,
of which those that reach the same state are one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from etl.columns.kernels import kernel, kernel_function
from etl.state.sequences.automaton import AT_END, EVERY

_OPEN, _NONE, _OVER = -1, -2, -3
"""Of a run: no event has decided it yet; no match; a match when its time is over."""


class Work(NamedTuple):
    """Arrays that the kernels write to."""

    taken: Any
    """int64[3, states, elements, 3]: the first and the last event that each element of a branch has taken, or -1, and how many;
    of the branches before and behind an event by turns, and of the one that has matched."""
    branches: Any
    """int64[2, states + 1]: the states of the branches."""
    latest: Any
    """int64[2, states]: where the latest run in a state begins."""
    marks: Any
    """int64[states]: when a state was reached last, by `clock`."""
    clock: Any
    """int64[1]"""

    @classmethod
    def of(cls, automaton: Any) -> Work:
        """Arrays for an automaton."""
        states, elements = len(automaton.accepts), len(automaton.names)
        arrays = [np.zeros(shape, np.int64) for shape in ((3, states, elements, 3), (2, states + 1), (2, states), states, 1)]
        return cls(*arrays)


class Span(NamedTuple):
    """What is decided now, and how long runs are; microseconds."""

    within: Any
    most: Any
    """Events of a run."""
    before: Any
    """Times before it were decided earlier."""
    settled: Any
    """Times before it are decided now."""


class Found(NamedTuple):
    """Matches, int64."""

    end: Any
    """[n]: the time at which it was decided: that of the last event, or when the time of the pattern was over."""
    taken: Any
    """[n, elements, 3]: the first and the last event of each element, or -1, and how many it has."""


@kernel_function
def _holds(tests: Any, codes: Any, names: Any, element: Any, event: Any, taken: Any, buffer: Any, state: Any) -> Any:
    """Whether what an element asks of earlier events is so. A test of an event that is not there holds."""
    for test in range(tests.shape[0]):
        if tests[test, 0] != element:
            continue
        other = np.int64(-1)
        for earlier in range(names.shape[0]):
            if names[earlier] == tests[test, 1]:
                if tests[test, 2] == 0 and other < 0:
                    other = taken[buffer, state, earlier, 0]
                if tests[test, 2] == 1 and taken[buffer, state, earlier, 1] > other:
                    other = taken[buffer, state, earlier, 1]
        if other < 0:
            continue
        left, right = codes[tests[test, 4], event], codes[tests[test, 5], other]
        if left < 0 or right < 0:
            return False
        order = np.int64(2) if left == right else (np.int64(1) if left < right else np.int64(4))
        if not tests[test, 3] & order:
            return False
    return True


@kernel_function
def _take(taken: Any, buffer: Any, source: Any, target: Any, element: Any, event: Any, to: Any) -> None:
    """The events of a branch, copied to another buffer and state, where an element has taken one more unless it is `AT_END`."""
    for each in range(taken.shape[2]):
        for what in range(3):
            taken[to, target, each, what] = taken[buffer, source, each, what]
    if element >= 0:
        if not taken[to, target, element, 2]:
            taken[to, target, element, 0] = event
        taken[to, target, element, 1] = event
        taken[to, target, element, 2] += 1


@kernel_function
def _run(begin: Any, end: Any, times: Any, masks: Any, automaton: Any, tests: Any, codes: Any, span: Any, work: Any) -> Any:
    """The event that completes the run from ``begin``, before ``end``; else `_OPEN`, `_NONE` or `_OVER`. The events of its
    elements are then in ``work.taken[2, 0]``."""
    taken, branches, marks = work.taken, work.branches, work.marks
    for each in range(taken.shape[2]):
        taken[0, 0, each, 0], taken[0, 0, each, 1], taken[0, 0, each, 2] = -1, -1, 0
    branches[0, 0], count, buffer = 0, np.int64(1), np.int64(0)
    event = begin
    while event < end and count:
        if times[event] - times[begin] >= span.within or event - begin >= span.most:
            break
        mask, to, found = masks[event] | EVERY, 1 - buffer, np.int64(0)
        work.clock[0] += 1
        mark = work.clock[0]
        for branch in range(count):
            state = branches[buffer, branch]
            remaining, fits = np.int64(0), False
            first = automaton.first_edge[state]
            for edge in range(first, automaton.first_edge[state + 1]):
                element, target = automaton.elements[edge], automaton.targets[edge]
                if (
                    element >= 0
                    and mask & automaton.names[element]
                    and _holds(tests, codes, automaton.names, element, event, taken, buffer, state)
                ):
                    fits = True
                    if automaton.accepts[target]:
                        _take(taken, buffer, state, np.int64(0), element, event, np.int64(2))
                        return event
                    if marks[target] != mark:
                        marks[target] = mark
                        branches[to, found] = target
                        found += 1
                        _take(taken, buffer, state, target, element, event, to)
                elif not mask & automaton.breaks[edge]:
                    remaining |= np.int64(1) << (edge - first)
            if not fits and event > begin:
                target = automaton.skipped[state, remaining]
                if target >= 0 and marks[target] != mark:
                    marks[target] = mark
                    branches[to, found] = target
                    found += 1
                    _take(taken, buffer, state, target, np.int64(-1), event, to)
        count, buffer = found, to
        event += 1
    if not count:
        return np.int64(_NONE)
    if event < end and event - begin >= span.most and times[event] - times[begin] < span.within:
        return np.int64(_NONE)
    for branch in range(count):
        state = branches[buffer, branch]
        for edge in range(automaton.first_edge[state], automaton.first_edge[state + 1]):
            if automaton.elements[edge] == AT_END:
                _take(taken, buffer, state, np.int64(0), np.int64(-1), event, np.int64(2))
                return np.int64(_OVER)
    return np.int64(_OPEN)


@kernel_function
def _first_end(begin: Any, end: Any, times: Any, masks: Any, automaton: Any, span: Any, work: Any) -> Any:
    """The first event that completes any run, before ``end``, or -1. Of the runs in a state only the latest one is known, which
    lives longest."""
    latest, branches, marks = work.latest, work.branches, work.marks
    count, buffer = np.int64(0), np.int64(0)
    for event in range(begin, end):
        mask, to, found = masks[event] | EVERY, 1 - buffer, np.int64(0)
        work.clock[0] += 1
        mark = work.clock[0]
        branches[buffer, count], latest[buffer, 0] = 0, event
        for branch in range(count + 1):
            state = branches[buffer, branch]
            start = latest[buffer, state]
            if times[event] - times[start] >= span.within or event - start >= span.most:
                continue
            remaining, fits = np.int64(0), False
            first = automaton.first_edge[state]
            for edge in range(first, automaton.first_edge[state + 1]):
                element, target = automaton.elements[edge], automaton.targets[edge]
                if element >= 0 and mask & automaton.names[element]:
                    if automaton.accepts[target]:
                        return np.int64(event)
                    fits = True
                    if marks[target] != mark:
                        marks[target], latest[to, target] = mark, start
                        branches[to, found] = target
                        found += 1
                    elif latest[to, target] < start:
                        latest[to, target] = start
                elif not mask & automaton.breaks[edge]:
                    remaining |= np.int64(1) << (edge - first)
            if not fits and state:
                target = automaton.skipped[state, remaining]
                if target >= 0:
                    if marks[target] != mark:
                        marks[target], latest[to, target] = mark, start
                        branches[to, found] = target
                        found += 1
                    elif latest[to, target] < start:
                        latest[to, target] = start
        count, buffer = found, to
    return np.int64(-1)


@kernel_function
def _may_begin(mask: Any, automaton: Any) -> Any:
    """Whether a run can begin at an event."""
    may = False
    for edge in range(automaton.first_edge[1]):
        may |= mask & automaton.names[automaton.elements[edge]] != 0
    return may


@kernel_function
def _last_taken(taken: Any) -> Any:
    """The last event of the match."""
    last = np.int64(-1)
    for element in range(taken.shape[2]):
        last = max(last, taken[2, 0, element, 1])
    return last


@kernel_function
def _add(found: Any, count: Any, end: Any, taken: Any) -> None:
    found.end[count] = end
    for element in range(taken.shape[2]):
        for what in range(3):
            found.taken[count, element, what] = taken[2, 0, element, what]


@kernel
def find_matches(
    firsts: Any, times: Any, masks: Any, automaton: Any, tests: Any, codes: Any, span: Any, plain: Any, found: Any, work: Any
) -> Any:
    """The matches of each key that end with an event and do not overlap; returns how many there are.

    Key k has the events from ``firsts[k, 0]`` to ``firsts[k, 1]``. Of matches that overlap, that with the earliest last event
    counts, of those the one with the earliest first event. ``plain``: there are no tests.
    """
    count = np.int64(0)
    for key in range(firsts.shape[0]):
        begin, end = firsts[key, 0], firsts[key, 1]
        while begin < end:
            best = np.int64(-1)
            limit = end
            if plain:
                best = _first_end(begin, end, times, masks, automaton, span, work)
                if best < 0:
                    break
                limit = best + 1
            chosen, run = np.int64(-1), begin
            while run < limit:
                if _may_begin(masks[run], automaton):
                    last = _run(run, limit, times, masks, automaton, tests, codes, span, work)
                    if last >= 0:
                        chosen, limit = run, last
                        if last == best:
                            break
                run += 1
            if chosen < 0:
                break
            last = _run(chosen, limit + 1, times, masks, automaton, tests, codes, span, work)
            if times[last] >= span.before:
                _add(found, count, times[last], work.taken)
                count += 1
            begin = last + 1
    return count


@kernel
def find_overlapping(
    firsts: Any, times: Any, masks: Any, automaton: Any, tests: Any, codes: Any, span: Any, found: Any, work: Any
) -> Any:
    """As `find_matches`, for the matches that begin at each event: the one with the earliest last event."""
    count = np.int64(0)
    for key in range(firsts.shape[0]):
        for run in range(firsts[key, 0], firsts[key, 1]):
            if _may_begin(masks[run], automaton):
                last = _run(run, firsts[key, 1], times, masks, automaton, tests, codes, span, work)
                if last >= 0 and times[last] >= span.before:
                    _add(found, count, times[last], work.taken)
                    count += 1
    return count


@kernel
def find_unanswered(
    firsts: Any, times: Any, masks: Any, automaton: Any, tests: Any, codes: Any, span: Any, overlap: Any, found: Any, work: Any
) -> Any:
    """As `find_matches`, for a pattern that ends with absent events: a match is decided when its time is over.

    Without ``overlap`` no run begins before the last event of a match.
    """
    count = np.int64(0)
    for key in range(firsts.shape[0]):
        run, end = firsts[key, 0], firsts[key, 1]
        while run < end and times[run] + span.within <= span.settled:
            over = times[run] + span.within
            following = run + 1
            if _may_begin(masks[run], automaton) and _run(run, end, times, masks, automaton, tests, codes, span, work) == _OVER:
                if over > span.before:
                    _add(found, count, over, work.taken)
                    count += 1
                if not overlap:
                    following = _last_taken(work.taken) + 1
            run = following
    return count
