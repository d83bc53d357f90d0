"""Properties of messages as rsyslog names them → values, and the forms in which templates write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from etl.expressions.quoting import quoted_text
from etl.migration.comparisons import among, contained, equal, matching, ordered, truth
from etl.migration.draft import Draft, NoCounterpartError, clean_name
from etl.migration.rsyslog.expressions import FACILITIES, Node, selector_mask
from etl.migration.values import (
    FALSE,
    NULL,
    TEXT,
    TRUE,
    TRUTH,
    WHOLE,
    Value,
    as_type,
    both,
    call,
    choose,
    constant,
    either,
    is_null,
    negation,
    text_value,
)

RAW = "event.original"
VARIABLES = "variables"
TIMES = {
    "date-rfc3339": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'+00:00'",
    "date-mysql": "yyyyMMddHHmmss",
    "date-pgsql": "yyyy-MM-dd HH:mm:ss",
    "date-year": "yyyy",
    "date-month": "MM",
    "date-day": "dd",
    "date-hour": "HH",
    "date-minute": "mm",
    "date-second": "ss",
    "date-subseconds": "SSSSSS",
}
"""Forms of times, as patterns of Java; times are UTC here."""

FACILITY, SEVERITY = "log.syslog.facility.code", "log.syslog.severity.code"
_FIELDS = {
    "msg": "message",
    "rawmsg": RAW,
    "hostname": "host.hostname",
    "source": "host.hostname",
    "fromhost": "log.source.address",
    "fromhost-ip": "log.source.address",
    "programname": "log.syslog.appname",
    "app-name": "log.syslog.appname",
    "procid": "log.syslog.procid",
    "msgid": "log.syslog.msgid",
    "pri": "log.syslog.priority",
    "syslogfacility": FACILITY,
    "syslogfacility-text": "log.syslog.facility.name",
    "syslogseverity": SEVERITY,
    "syslogseverity-text": "log.syslog.severity.name",
    "syslogpriority": SEVERITY,
    "syslogpriority-text": "log.syslog.severity.name",
    "protocol-version": "log.syslog.version",
    "timereported": "timestamp",
    "timestamp": "timestamp",
    "timegenerated": "event.created",
}
_CLOCK = {"$now": "date", "$year": "yyyy", "$month": "MM", "$day": "dd", "$hour": "HH", "$minute": "mm"}
_FALSE_IF_MISSING = TRUTH


@dataclass
class Properties:
    """The properties of a stream's messages."""

    draft: Draft
    success: Value | None = None
    """The condition under which the last ``mmjsonparse`` has read an object; None before the first."""
    read: set[str] = field(default_factory=set)

    def value(self, name: str) -> Value:
        """A property. Raises NoCounterpartError."""
        name = name.removeprefix("$") if not name.startswith(("$!", "$.", "$/")) and name.lower() not in _CLOCK else name
        if name.startswith(("$!", "!", "$.", ".")):
            return self.draft.field(self.variable(name))
        key = name.lower()
        if key == "parsesuccess" and self.success is not None:
            return choose(self.success, text_value("OK"), text_value("FAIL"))
        if key == "syslogtag":
            return self._tag()
        if key == "pri-text":
            parts = [self.value("syslogfacility-text"), text_value("."), self.value("syslogseverity-text")]
            return call("concat", parts, TEXT)
        if key in _CLOCK:
            return Value(f"date_format(current_timestamp(), '{_CLOCK[key].replace('date', 'yyyy-MM-dd')}')", TEXT)
        if key not in _FIELDS:
            raise NoCounterpartError(f"the property {name!r}")
        return self.draft.field(_FIELDS[key])

    def variable(self, name: str) -> str:
        """The field of a variable: ``$!a!b`` is ``a.b``."""
        path = clean_name(".".join(part for part in re.split(r"[!.]", name.lstrip("$")) if part))
        if not path:
            raise NoCounterpartError("all variables at once; the events have them")
        return f"{VARIABLES}.{path}" if name.lstrip("$").startswith(".") else path

    def _tag(self) -> Value:
        program, process = self.value("programname"), self.value("procid")
        if program.is_null:
            return NULL
        number = (
            "" if process.is_null else f", case when {process.sql} is not null then concat('[', {process.sql}, ']') else '' end"
        )
        return Value(f"concat({program.sql}{number}, ':')", TEXT, program.reads | process.reads)

    # ── Expressions ───────────────────────────────────────────────────────────────────────────────

    def condition(self, node: Node) -> Value:
        """The condition of an ``if`` or a filter. Raises NoCounterpartError."""
        match node:
            case ("prifilt", str(selector)):
                return self._selected(selector)
            case ("filter", str(name), bool(negated), str(comparison), str(text)):
                found = self._filtered(name, comparison.lower(), text)
                return negation(found) if negated else found
            case ("not", one):
                return negation(self.condition(one))
            case ("and", one, other):
                return both(self.condition(one), self.condition(other)) or TRUE
            case ("or", one, other):
                return either(self.condition(one), self.condition(other))
            case ("call", "re_match", [one, ("text", pattern)]):
                return matching(self.expression(one), pattern)
            case ("call", "re_match_i", [one, ("text", pattern)]):
                return matching(self.expression(one), f"(?i){pattern}")
            case ("call", "exists", [("property", name)]):
                return negation(is_null(self.value(name)))
            case ("call", "prifilt", [("text", selector)]):
                return self._selected(selector)
            case (operator, one, other) if operator in _COMPARED:
                return self._compared(operator, self.expression(one), other)
        found = self.expression(node)
        return Value(f"{found.sql} <> 0", TRUTH, found.reads) if found.is_number else truth(found)

    def _compared(self, operator: str, one: Value, other: Node) -> Value:
        if other[0] == "array":
            found = FALSE
            for item in other[1]:
                found = either(found, self._compared("==" if operator == "!=" else operator, one, item))
            return negation(found) if operator == "!=" else found
        value = self.expression(other)
        if operator in ("==", "!="):
            found = equal(one, value)
            return negation(found) if operator == "!=" else found
        if operator in ("<", "<=", ">", ">="):
            return ordered(operator, one, value)
        if one.is_null:
            return FALSE
        left, right = as_type(one, TEXT), as_type(value, TEXT)
        if operator.endswith("_i"):
            left, right = call("lower", [left], TEXT), call("lower", [right], TEXT)
        if operator.startswith("contains"):
            return contained(right, left)
        return call("endswith" if operator == "endswith" else "startswith", [left, right], TRUTH)

    def _filtered(self, name: str, comparison: str, text: str) -> Value:
        value = self.value(name)
        one = as_type(value, TEXT)
        match comparison:
            case "isequal":
                return equal(one, text_value(text))
            case "contains":
                return contained(text_value(text), one)
            case "startswith":
                return FALSE if value.is_null else call("startswith", [one, text_value(text)], TRUTH)
            case "endswith":
                return FALSE if value.is_null else call("endswith", [one, text_value(text)], TRUTH)
            case "regex" | "ereregex":
                return matching(one, text)
            case "isempty":
                return TRUE if value.is_null else Value(f"coalesce({one.sql}, '') = ''", TRUTH, one.reads)
        raise NoCounterpartError(f"the comparison {comparison!r}")

    def _selected(self, selector: str) -> Value:
        """The messages of a selector: facilities with the same severities together."""
        groups: dict[frozenset[int], list[int]] = {}
        for number, levels in enumerate(selector_mask(selector)):
            groups.setdefault(levels, []).append(number)
        facility, severity = self.draft.field(FACILITY), self.draft.field(SEVERITY)
        found = FALSE
        for levels, facilities in groups.items():
            if levels:
                found = either(
                    found, both(_chosen(facility, facilities, len(FACILITIES)), _chosen(severity, sorted(levels), 8)) or TRUE
                )
        return found

    def expression(self, node: Node) -> Value:
        """The value of an expression. Raises NoCounterpartError."""
        match node:
            case ("text", str(text)):
                return text_value(text)
            case ("number", int(number)):
                return constant(number)
            case ("property", str(name)):
                return self.value(name)
            case ("&", one, other):
                parts = [self._text(one), self._text(other)]
                return call("concat", parts, TEXT)
            case (("+" | "-" | "*" | "/" | "%") as sign, one, other):
                left, right = (self._number(part) for part in (one, other))
                made = f"{'div' if sign == '/' else sign}"
                return Value(f"({left.sql} {made} {right.sql})", WHOLE, left.reads | right.reads)
            case ("call", str(name), list(arguments)):
                return self._call(name, arguments)
        return self.condition(node) if node[0] in _COMPARED or node[0] in ("and", "or", "not") else self._unknown(node)

    def _unknown(self, node: Node) -> Value:
        raise NoCounterpartError(f"an expression with {node[0]!r}")

    def _text(self, node: Node) -> Value:
        found = as_type(self.expression(node), TEXT)
        return found if found.is_literal else Value(f"coalesce({found.sql}, '')", TEXT, found.reads)

    def _number(self, node: Node) -> Value:
        return as_type(self.expression(node), WHOLE)

    def _call(self, name: str, arguments: list[Node]) -> Value:
        make = _FUNCTIONS.get((name, len(arguments)))
        if make is None:
            raise NoCounterpartError(_NO_FUNCTION.get(name, f"the function {name}() with {len(arguments)} arguments"))
        return make(self, arguments)


_NO_FUNCTION = {
    "lookup": "the function lookup(): a table under `tables` and the step `lookup` do the same",
    "dyn_inc": "the function dyn_inc(): the step `window` counts",
    "http_request": "the function http_request(): a table over HTTP and the step `lookup`",
}
"""Functions without a counterpart, and what to do instead."""

_COMPARED = frozenset(["==", "!=", "<", "<=", ">", ">=", "contains", "contains_i", "startswith", "startswith_i", "endswith"])


def _chosen(value: Value, numbers: list[int], count: int) -> Value | None:
    """Whether a number is one of some; None if they are all."""
    if len(numbers) == count or value.is_null:
        return None
    if numbers == [*range(len(numbers))] and len(numbers) > 1:
        return Value(f"{value.sql} <= {numbers[-1]}", TRUTH, value.reads)
    if 2 * len(numbers) > count:
        return negation(among(value, [constant(one) for one in range(count) if one not in numbers]))
    return among(value, [constant(one) for one in numbers])


def _literal(node: Node) -> str:
    if node[0] not in ("text", "number"):
        raise NoCounterpartError("an argument that is not a constant")
    return str(node[1])


def _field(properties: Properties, arguments: list[Node]) -> Value:
    """``field(text, delimiter, number)``; a number as delimiter is a code of ASCII."""
    delimiter = chr(int(_literal(arguments[1]))) if arguments[1][0] == "number" else _literal(arguments[1])
    text = properties._text(arguments[0])
    return Value(f"split_part({text.sql}, {quoted_text(delimiter)}, {int(_literal(arguments[2]))})", TEXT, text.reads)


def _extract(properties: Properties, arguments: list[Node]) -> Value:
    """``re_extract(text, pattern, match, group, default)``."""
    text, pattern = properties._text(arguments[0]), _literal(arguments[1])
    if _literal(arguments[2]) != "0":
        raise NoCounterpartError("re_extract of a later match")
    made = f"regexp_extract({text.sql}, {quoted_text(pattern)}, {int(_literal(arguments[3]))})"
    other = quoted_text(_literal(arguments[4]))
    return Value(f"case when regexp_like({text.sql}, {quoted_text(pattern)}) then {made} else {other} end", TEXT, text.reads)


def _replace(properties: Properties, arguments: list[Node]) -> Value:
    return call("replace", [properties._text(one) for one in arguments], TEXT)


def _substring(properties: Properties, arguments: list[Node]) -> Value:
    text, start, length = properties._text(arguments[0]), *(properties._number(one) for one in arguments[1:])
    begin = str(int(start.sql) + 1) if start.sql.isdecimal() else f"{start.sql} + 1"
    return Value(f"substring({text.sql}, {begin}, {length.sql})", TEXT, text.reads | start.reads | length.reads)


def _of_text(function: str, type_: str = TEXT) -> Callable[[Properties, list[Node]], Value]:
    return lambda properties, arguments: call(function, [properties._text(arguments[0])], type_)


_FUNCTIONS: Mapping[tuple[str, int], Callable[[Properties, list[Node]], Value]] = {
    ("tolower", 1): _of_text("lower"),
    ("toupper", 1): _of_text("upper"),
    ("ltrim", 1): _of_text("ltrim"),
    ("rtrim", 1): _of_text("rtrim"),
    ("strlen", 1): _of_text("length", WHOLE),
    ("cstr", 1): lambda properties, arguments: properties._text(arguments[0]),
    ("cnum", 1): lambda properties, arguments: properties._number(arguments[0]),
    ("field", 3): _field,
    ("re_extract", 5): _extract,
    ("replace", 3): _replace,
    ("substring", 3): _substring,
}
"""Functions by name and number of arguments."""
