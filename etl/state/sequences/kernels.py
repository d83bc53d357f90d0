"""Kernels that find the matches of a pattern in the events of each key (`EventArrays`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.kernels import kernel, kernel_function
from etl.state.sequences.runs import OPEN, OVER, first_end, passed, run_from, take


@kernel_function
def _last_event(taken: Any) -> Any:
    """The last event of the match."""
    last = np.int64(-1)
    for element in range(taken.shape[2]):
        last = max(last, taken[2, 0, element, 1])
    return last


@kernel_function
def _following(begin: Any, taken: Any, pattern: Any) -> Any:
    """The event at which the next match may begin, which is a later one than that at which this match begins."""
    name, last, found = pattern.skip[0], pattern.skip[1], np.int64(-1)
    for element in range(taken.shape[2] if name else 0):
        if pattern.automaton.names[element] == name and taken[2, 0, element, 2]:
            if last:
                found = max(found, taken[2, 0, element, 1])
            elif found < 0 or taken[2, 0, element, 0] < found:
                found = taken[2, 0, element, 0]
    return _last_event(taken) + 1 if found < 0 else max(found, begin + 1)


@kernel_function
def _add(found: Any, count: Any, end: Any, taken: Any, following: Any) -> Any:
    """Write the match with this number; returns the next number."""
    found.end[count], found.following[count] = end, following
    for element in range(taken.shape[2]):
        for what in range(3):
            found.taken[count, element, what] = taken[2, 0, element, what]
    return count + 1


@kernel
def find_matches(events: Any, pattern: Any, span: Any, plain: Any, found: Any, work: Any) -> Any:
    """The matches of each key that end with an event and do not overlap; returns how many there are.

    Of matches that overlap, that with the earliest last event counts, of those the one with the earliest first event.
    ``plain``: there are no tests.
    """
    count = np.int64(0)
    for key in range(events.bounds.shape[0]):
        begin, end = events.bounds[key, 0], events.bounds[key, 1]
        while begin < end:
            best = np.int64(-1)
            limit = end
            if plain:
                best = first_end(begin, end, events, pattern.automaton, span, work)
                if best < 0:
                    break
                limit = best + 1
            chosen, run = np.int64(-1), begin
            while run < limit:
                last = run_from(run, limit, events, pattern, span, work)
                if last >= 0:
                    chosen, limit = run, last
                    if last == best:
                        break
                run += 1
            if chosen < 0:
                break
            last = run_from(chosen, limit + 1, events, pattern, span, work)
            begin = _following(chosen, work.taken, pattern)
            if events.times[last] >= span.before:
                count = _add(found, count, events.times[last], work.taken, begin)
    return count


@kernel
def find_overlapping(events: Any, pattern: Any, span: Any, found: Any, work: Any) -> Any:
    """As `find_matches`, for the matches that begin at each event: the one with the earliest last event."""
    count = np.int64(0)
    for key in range(events.bounds.shape[0]):
        for run in range(events.bounds[key, 0], events.bounds[key, 1]):
            last = run_from(run, events.bounds[key, 1], events, pattern, span, work)
            if last >= 0 and events.times[last] >= span.before:
                count = _add(found, count, events.times[last], work.taken, run + 1)
    return count


@kernel
def find_unanswered(events: Any, pattern: Any, span: Any, overlap: Any, found: Any, work: Any) -> Any:
    """As `find_matches`, for a pattern that ends with absent events: a match is decided when its time is over.

    Without ``overlap`` no run begins in a match before the event that ``pattern.skip`` says.
    """
    count = np.int64(0)
    for key in range(events.bounds.shape[0]):
        run, end = events.bounds[key, 0], events.bounds[key, 1]
        while run < end and events.times[run] + span.within <= span.settled:
            over = events.times[run] + span.within
            following = run + 1
            if run_from(run, end, events, pattern, span, work) == OVER:
                if not overlap:
                    following = _following(run, work.taken, pattern)
                if over > span.before:
                    count = _add(found, count, over, work.taken, following)
            run = following
    return count


@kernel
def find_open(events: Any, pattern: Any, span: Any, found: Any, work: Any) -> Any:
    """The earliest run of each key that may become a match; returns how many there are. `MatchArrays.end`: its last event."""
    count = np.int64(0)
    for key in range(events.bounds.shape[0]):
        for run in range(events.bounds[key, 0], events.bounds[key, 1]):
            if events.times[run] + span.within > span.settled:
                decided = run_from(run, events.bounds[key, 1], events, pattern, span, work)
                if decided in (OPEN, OVER):
                    count = _add(found, count, events.times[_last_event(work.taken)], work.taken, run + 1)
                    break
    return count


@kernel
def list_matched_events(taken: Any, masks: Any, pattern: Any, max_events: Any, work: Any, events: Any, elements: Any) -> Any:
    """The events of each match, at most the last ``max_events``, and the elements that took them; returns how many there are."""
    count = np.int64(0)
    for match in range(taken.shape[0]):
        skip = -max_events
        for element in range(taken.shape[1]):
            skip += taken[match, element, 2]
            work.taken[0, 0, element, 0], work.taken[0, 0, element, 1], work.taken[0, 0, element, 2] = -1, -1, 0
        for element in range(taken.shape[1]):
            if taken[match, element, 2]:
                for event in range(taken[match, element, 0], taken[match, element, 1] + 1):
                    mask = passed(masks[event], pattern, event, work.taken, np.int64(0), np.int64(0))
                    if mask & pattern.automaton.names[element]:
                        take(work.taken, np.int64(0), np.int64(0), np.int64(0), element, event, np.int64(0))
                        if skip > 0:
                            skip -= 1
                        else:
                            events[count], elements[count] = event, element
                            count += 1
    return count


@kernel
def list_chained_events(
    taken: Any, ends: Any, events: Any, pattern: Any, span: Any, max_events: Any, work: Any, listed: Any, elements: Any
) -> Any:
    """As `list_matched_events`, where elements take events by turns: each match is found again. ``ends``: before which event the
    events of its key end."""
    count = np.int64(0)
    for match in range(taken.shape[0]):
        begin, size = np.int64(-1), np.int64(0)
        for element in range(taken.shape[1]):
            size += taken[match, element, 2]
            if taken[match, element, 2] and (begin < 0 or taken[match, element, 0] < begin):
                begin = taken[match, element, 0]
        run_from(begin, ends[match], events, pattern, span, work)
        size = min(size, max_events)
        number = work.heads[2, 0]
        for at in range(count + size - 1, count - 1, -1):
            listed[at], elements[at] = work.chains[number, 0], work.chains[number, 1]
            number = work.chains[number, 2]
        count += size
    return count
