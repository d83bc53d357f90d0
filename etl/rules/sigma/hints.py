"""Hints for pySigma's errors, which say what is wrong and rarely what is accepted."""

from __future__ import annotations

import re
from collections.abc import Callable

from etl.api import nearest
from etl.rules.correlation.model import KINDS
from etl.rules.rule import LEVELS

_MODIFIER = r"Modifier Sigma\w*?{}\w* incompatible to value type of '.*'"

_HINTS: tuple[tuple[re.Pattern[str], str | Callable[[str], str]], ...] = tuple(
    (re.compile(pattern, re.DOTALL), hint)
    for pattern, hint in (
        (r"Unknown modifier '(.*)'", lambda name: _nearest_modifier(name)),
        (_MODIFIER.format("(?:Less|Greater|Compare)"), "it compares with a number"),
        (_MODIFIER.format("NotEqual"), "it compares with a text or a number"),
        (_MODIFIER.format("Exists"), "its value is true or false"),
        (_MODIFIER.format("Timestamp"), "its value is a whole number"),
        (r"Modifier (?!SigmaTimestamp).* incompatible to value type", "it is for texts"),
        (r".* is not a valid Sigma rule level", f"levels are {', '.join(LEVELS)}"),
        (r".* is not a valid Sigma rule status", "they are stable, test, experimental, deprecated, unsupported"),
        (r"Sigma rule must contain at least one condition", "a detection has a 'condition', which names its selections"),
        (r"Detection '.*' not defined in detections", "a condition names the keys of its detection, such as 'selection'"),
        (r"The pipe syntax", "write a correlation instead, for the step correlate"),
        (r"Sigma rule must have a log source", "such as logsource: {category: process_creation, product: windows}"),
        (r"Sigma rule must have a title", "such as title: Shell of a web server"),
        (r"Sigma rule identifier must be an UUID", "leave it out, or make one with uuidgen"),
        (r"Base64 encoding of strings with wildcards", "write * as \\*, or leave it out"),
        (r"Timespan '.*' ", "write a number and s, m, h, d, w, M or y: 10m"),
        (r"Sigma correlation rule without timespan", "such as timespan: 10m"),
        (r".* is no valid Sigma correlation type", f"types are {', '.join(KINDS)}"),
        (r"Sigma correlation condition (must have|contains)", "one of gt, gte, lt, lte, eq, neq: condition: {gte: 5}"),
        (r"Non-temporal Sigma correlation rule without condition", "such as condition: {gte: 5}"),
        (r".* correlation rule without field reference", "name it beside the number: condition: {gte: 5, field: user_name}"),
        (r"Sigma correlation rule without (type|rule)", "such as correlation: {type: event_count, rules: [failed_login], …}"),
    )
)


def add_hint(error: object) -> str:
    """The message of an error, with a hint if there is one."""
    text = str(error) or type(error).__name__
    for pattern, hint in _HINTS:
        if found := pattern.match(text):
            return f"{text.rstrip('.')}; {hint if isinstance(hint, str) else hint(found[1])}"
    return text


def _nearest_modifier(name: str) -> str:
    from sigma.modifiers import modifier_mapping

    return nearest(name, modifier_mapping) or f"modifiers are {', '.join(sorted(modifier_mapping))}"
