"""The test events that rules bring along."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etl.rules.compiled_rules import match_event
from etl.rules.rule import Rule
from etl.rules.sigma.taxonomy import Taxonomy


def find_failure(rule: Rule, case: Any, taxonomy: Taxonomy) -> str | None:
    """Why one of the rule's `tests` fails; None if it does not."""
    if not isinstance(case, Mapping) or not isinstance(case.get("event"), Mapping):
        return f"a test is a mapping with an 'event', and this is {case!r}"
    expected = bool(case.get("matches", True))
    found = match_event(rule, case["event"], taxonomy)
    if isinstance(found, str):
        return found
    return None if found == expected else f"it {'does not fire' if expected else 'fires'}"
