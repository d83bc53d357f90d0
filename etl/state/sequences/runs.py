"""One run of a pattern over the events of a key, which are in order, as functions of kernels.

A *run* begins at an event and goes on as long as the time between its first event and the next one is shorter than ``within``.
An event that fits is taken; where it fits several elements, the run goes on in several *branches*, in the order of preference,
of which those that reach the same state are one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from etl.columns.kernels import inlined, kernel_function
from etl.state.sequences.automaton import ANY_EVENT, AT_END

_LESS, _EQUAL, _GREATER = 1, 2, 4
"""Results of a comparison; a test holds for some of them."""

OPEN, NONE, OVER = -1, -2, -3
"""Of a run: no event has decided it yet; no match; a match when its time is over."""


class ScratchArrays(NamedTuple):
    """Arrays in which the kernels keep the branches of a run."""

    taken: Any
    """int64[3, states, elements, 3]: the first and the last event that each element of a branch has taken, or -1, and how many;
    of the branches before and after an event by turns, and of the one that has matched."""
    branches: Any
    """int64[2, states + 1]: the states of the branches."""
    latest: Any
    """int64[2, states]: where the latest run in a state begins."""
    marks: Any
    """int64[states]: when a state was reached last, by `clock`."""
    clock: Any
    """int64[1]"""
    chains: Any
    """int64[n, 3]: an event that was taken, the element, and the number of what the branch took before or -1; none if only
    sums are asked for. The first row has the number of those in use."""
    heads: Any
    """int64[3, states]: the number of the last event of each branch, as ``taken``."""

    @classmethod
    def of(cls, automaton: Any, chained: int = 0) -> ScratchArrays:
        """Arrays for an automaton; ``chained``: the greatest number of events of a run, if each event is asked for."""
        states, elements = len(automaton.accepts), len(automaton.names)
        chains = (1 + chained * (states + 1) if chained else 0, 3)
        shapes = ((3, states, elements, 3), (2, states + 1), (2, states), states, 1, chains, (3, states))
        arrays = [np.zeros(shape, np.int64) for shape in shapes]
        return cls(*arrays)


class EventArrays(NamedTuple):
    """Events of several keys, those of each in order."""

    bounds: Any
    """int64[keys, 2]: where the events of each key begin and end."""
    times: Any
    """int64[events]: microseconds since the epoch."""
    masks: Any
    """int64[events]: a bit for each condition that an event meets."""


class CompiledPattern(NamedTuple):
    """The automaton of a pattern, and its comparisons of events with earlier ones."""

    automaton: Any
    tests: Any
    """int64[tests, 4]: the bit of a name, the bit of an earlier one, whether its last event is meant or its first, and the
    results of a comparison for which the test holds."""
    codes: Any
    """int64[2 * tests, events]: for each test a row with the values of events, and a row with those of events as earlier ones."""
    skip: Any
    """int64[2]: the bit of the name at whose event the next match may begin, 0 for after the last event; whether its last one."""


class Span(NamedTuple):
    """What is decided now, and how long runs are; microseconds."""

    within: Any
    max_events: Any
    """Events of a run."""
    before: Any
    """Times before it were decided earlier."""
    settled: Any
    """Times before it are decided now."""


class MatchArrays(NamedTuple):
    """Matches, int64."""

    end: Any
    """[n]: the time at which it was decided: that of the last event, or when the time of the pattern was over."""
    taken: Any
    """[n, elements, 3]: the first and the last event of each element, or -1, and how many it has."""
    following: Any
    """[n]: the event at which the next match may begin."""


@kernel_function
def _earlier(tests: Any, test: Any, names: Any, taken: Any, buffer: Any, state: Any) -> Any:
    """The earlier event that a test is about, or -1 if it is not there."""
    found = np.int64(-1)
    for element in range(names.shape[0]):
        if names[element] == tests[test, 1]:
            if tests[test, 2]:
                found = max(found, taken[buffer, state, element, 1])
            elif taken[buffer, state, element, 0] >= 0 and (found < 0 or taken[buffer, state, element, 0] < found):
                found = taken[buffer, state, element, 0]
    return found


@kernel_function
def passed(mask: Any, pattern: Any, event: Any, taken: Any, buffer: Any, state: Any) -> Any:
    """The mask of an event without the names whose tests it fails. A test against an event that is not there holds."""
    tests, codes = pattern.tests, pattern.codes
    for test in range(tests.shape[0]):
        if mask & tests[test, 0]:
            earlier = _earlier(tests, test, pattern.automaton.names, taken, buffer, state)
            if earlier >= 0:
                left, right = codes[2 * test, event], codes[2 * test + 1, earlier]
                order = np.int64(_EQUAL) if left == right else (np.int64(_LESS) if left < right else np.int64(_GREATER))
                if left < 0 or right < 0 or not tests[test, 3] & order:
                    mask &= ~tests[test, 0]
    return mask


@kernel_function
def take(taken: Any, buffer: Any, source: Any, target: Any, element: Any, event: Any, to: Any) -> None:
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
def chain(work: Any, buffer: Any, source: Any, target: Any, element: Any, event: Any, to: Any) -> None:
    """As `take`, for the events of a branch one by one."""
    if work.chains.shape[0]:
        head = work.heads[buffer, source]
        if element >= 0:
            work.chains[0, 0] += 1
            number = work.chains[0, 0]
            work.chains[number, 0], work.chains[number, 1], work.chains[number, 2] = event, element, head
            head = number
        work.heads[to, target] = head


@kernel_function
def _beginnings(automaton: Any) -> Any:
    """The mask of events with which a run can begin."""
    names = np.int64(0)
    for edge in range(automaton.first_edge[1]):
        names |= automaton.names[automaton.elements[edge]]
    return names


@kernel_function
def _may_begin(mask: Any, automaton: Any) -> Any:
    """Whether a run can begin at an event."""
    return mask & _beginnings(automaton) != 0


@inlined
def run_from(begin: Any, end: Any, events: Any, pattern: Any, span: Any, work: Any) -> Any:
    """The event that completes the run from ``begin``, before ``end``; else `OPEN`, `NONE` or `OVER`. The events of its
    elements are then in ``work.taken[2, 0]``, unless there is no match."""
    if not _may_begin(events.masks[begin], pattern.automaton):
        return np.int64(NONE)
    for each in range(work.taken.shape[2]):
        work.taken[0, 0, each, 0], work.taken[0, 0, each, 1], work.taken[0, 0, each, 2] = -1, -1, 0
    work.branches[0, 0] = 0
    if work.chains.shape[0]:
        work.chains[0, 0], work.heads[0, 0] = 0, -1
    return _run_on(begin, end, events, pattern, span, work)


@inlined
def _add_branch(target: Any, element: Any, event: Any, state: Any, buffer: Any, found: Any, mark: Any, work: Any) -> Any:
    """Lead a branch to another state, unless a preferred branch is there after this event; returns the number of branches."""
    if work.marks[target] == mark:
        return found
    work.marks[target] = mark
    work.branches[1 - buffer, found] = target
    take(work.taken, buffer, state, target, element, event, 1 - buffer)
    chain(work, buffer, state, target, element, event, 1 - buffer)
    return found + 1


@kernel_function
def _run_on(begin: Any, end: Any, events: Any, pattern: Any, span: Any, work: Any) -> Any:
    """As `run_from`, with one branch in state 0 that has taken nothing."""
    taken, branches, times, automaton = work.taken, work.branches, events.times, pattern.automaton
    event, count, buffer = begin, np.int64(1), np.int64(0)
    while event < end and count:
        if times[event] - times[begin] >= span.within or event - begin >= span.max_events:
            break
        found = np.int64(0)
        work.clock[0] += 1
        mark = work.clock[0]
        for branch in range(count):
            state = branches[buffer, branch]
            mask = passed(events.masks[event] | ANY_EVENT, pattern, event, taken, buffer, state)
            remaining, fits = np.int64(0), False
            first = automaton.first_edge[state]
            for edge in range(first, automaton.first_edge[state + 1]):
                element, target = automaton.elements[edge], automaton.targets[edge]
                if element >= 0 and mask & automaton.names[element] and not mask & automaton.barred[edge]:
                    fits = True
                    if automaton.accepts[target]:
                        take(taken, buffer, state, np.int64(0), element, event, np.int64(2))
                        chain(work, buffer, state, np.int64(0), element, event, np.int64(2))
                        return event
                    found = _add_branch(target, element, event, state, buffer, found, mark, work)
                elif not mask & automaton.breaks[edge]:
                    remaining |= np.int64(1) << (edge - first)
            if not fits and event > begin and automaton.skipped[state, remaining] >= 0:
                found = _add_branch(automaton.skipped[state, remaining], np.int64(-1), event, state, buffer, found, mark, work)
        count, buffer = found, 1 - buffer
        event += 1
    if not count:
        return np.int64(NONE)
    if event < end and event - begin >= span.max_events and times[event] - times[begin] < span.within:
        return np.int64(NONE)
    for branch in range(count):
        state = branches[buffer, branch]
        for edge in range(automaton.first_edge[state], automaton.first_edge[state + 1]):
            if automaton.elements[edge] == AT_END:
                take(taken, buffer, state, np.int64(0), np.int64(-1), event, np.int64(2))
                chain(work, buffer, state, np.int64(0), np.int64(-1), event, np.int64(2))
                return np.int64(OVER)
    take(taken, buffer, branches[buffer, 0], np.int64(0), np.int64(-1), event, np.int64(2))
    return np.int64(OPEN)


@inlined
def _add_run(target: Any, start: Any, to: Any, found: Any, mark: Any, work: Any) -> Any:
    """Lead a run to another state, of whose runs the latest one is known; returns the number of states with runs."""
    if work.marks[target] == mark:
        work.latest[to, target] = max(work.latest[to, target], start)
        return found
    work.marks[target], work.latest[to, target] = mark, start
    work.branches[to, found] = target
    return found + 1


@kernel_function
def first_end(begin: Any, end: Any, events: Any, automaton: Any, span: Any, work: Any) -> Any:
    """The first event that completes any run, before ``end``, or -1. Of the runs in a state only the latest one is known, which
    ends last."""
    latest, branches, times, beginnings = work.latest, work.branches, events.times, _beginnings(automaton)
    count, buffer = np.int64(0), np.int64(0)
    for event in range(begin, end):
        mask, to, found = events.masks[event] | ANY_EVENT, 1 - buffer, np.int64(0)
        begun = count
        if mask & beginnings:
            branches[buffer, count], latest[buffer, 0] = 0, event
            begun += 1
        elif not count:
            continue
        work.clock[0] += 1
        mark = work.clock[0]
        for branch in range(begun):
            state = branches[buffer, branch]
            start = latest[buffer, state]
            if times[event] - times[start] >= span.within or event - start >= span.max_events:
                continue
            remaining, fits = np.int64(0), False
            first = automaton.first_edge[state]
            for edge in range(first, automaton.first_edge[state + 1]):
                element, target = automaton.elements[edge], automaton.targets[edge]
                if element >= 0 and mask & automaton.names[element] and not mask & automaton.barred[edge]:
                    if automaton.accepts[target]:
                        return np.int64(event)
                    fits = True
                    found = _add_run(target, start, to, found, mark, work)
                elif not mask & automaton.breaks[edge]:
                    remaining |= np.int64(1) << (edge - first)
            if not fits and state and automaton.skipped[state, remaining] >= 0:
                found = _add_run(automaton.skipped[state, remaining], start, to, found, mark, work)
        count, buffer = found, to
    return np.int64(-1)
