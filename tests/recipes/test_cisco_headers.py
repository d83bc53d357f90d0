"""Headers of any make before Cisco's messages: the message is read as it would be alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_recipe_lines import Line, events_of

pytestmark = pytest.mark.slow

NAMES = st.sampled_from(["fw01", "FW-1", "fw_1", "gate", "fw1.example.org", "1st-gate", "A", "vpn-gw-02a.example.co"])
ADDRESSES = st.sampled_from(["192.0.2.1", "10.1.2.3", "203.0.113.254"])
PRIORITIES = st.one_of(st.just(""), st.integers(0, 191).map("<{}>".format))
SEQUENCES = st.one_of(st.just(""), st.integers(0, 10**9).map("{}: ".format))
CLOCKS = st.builds(
    "{:02d}:{:02d}:{:02d}{}".format, *(st.integers(0, n) for n in (23, 59, 59)), st.sampled_from(["", ".1", ".123"])
)
DATES = st.builds(
    "{} {:2d}{} {}".format, st.sampled_from(["Jan", "Aug", "Dec"]), st.integers(1, 31), st.sampled_from(["", " 2026"]), CLOCKS
)
TIMES = st.one_of(DATES, st.builds("2026-11-20T{}{}".format, CLOCKS, st.sampled_from(["Z", "+01:00", ""])))
ZONES = st.sampled_from(["", " UTC", " CEST", " EDT"])
RELAYS = st.one_of(st.just(""), st.builds("{} {} ".format, TIMES, st.one_of(NAMES, ADDRESSES)))
BSD = st.builds("{}{}: ".format, DATES, ZONES)

ASA = st.builds("{}{}{}{}".format, PRIORITIES, RELAYS, st.one_of(st.just(""), NAMES.map("{}: ".format)), BSD)
IOS = st.builds("{}{}{}{}".format, PRIORITIES, RELAYS, SEQUENCES, st.builds("{}{}".format, st.sampled_from(["", "*", "."]), BSD))

CASES = {
    "cisco-asa": (ASA, '%ASA-4-106023: Deny udp src in:192.0.2.1/5 dst out:198.51.100.2/53 by access-group "a" [0x0, 0x0]'),
    "cisco-ios": (IOS, "%SEC-6-IPACCESSLOGP: list 150 denied udp 192.0.2.1(5) -> 198.51.100.2(53), 1 packet"),
}
EXPECTED = {"source.ip": "192.0.2.1", "source.port": 5, "destination.port": 53, "network.transport": "udp"}


@pytest.mark.parametrize("recipe", CASES)
def test_any_header_leaves_the_message_as_it_is(recipe: str) -> None:
    headers, body = CASES[recipe]

    @settings(deadline=None, max_examples=8)
    @given(st.lists(headers, min_size=12, max_size=12))
    def check(some: list[str]) -> None:
        lines = tuple(Line(header + body, EXPECTED) for header in some)
        events = events_of(recipe, lines)
        wrong = [line.text for line, event in zip(lines, events, strict=True) if event is None or not _fits(event)]
        assert not wrong, wrong[:5]

    check()


def _fits(event: object) -> bool:
    return isinstance(event, dict) and all(event.get(name) == value for name, value in EXPECTED.items())
