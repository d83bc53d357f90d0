"""Script functions give what RocketMQ Streams gives, but for its mistakes, and for what cannot exist here."""

from __future__ import annotations

import base64
import datetime
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from script_runs import as_json, flat, run_script, types_after

from etl.rsql.problems import SourceError

OTHERWISE: Mapping[str, str] = {
    "r=in(low,'abc','x');": "a text in quotes is one of the list, too",
    "r=in(low,true,'a.c');": "with true the list holds regular expressions, as documented",
    "if(low!='x'){r='ne';}else{r='eq';};": "'abc' is not 'x'",
    "r=great(low,'ABC');": "texts are compared as texts",
    "r=lesseq(ints,'10');": "numbers in texts are compared as numbers",
    "r=less(ints,'10');": "numbers in texts are compared as numbers",
    "splitArray(data);": "texts of an array are events, too",
    "split(true,true,false,'log',' ','ts','lvl','req','thr');": "brackets and quotes hold no piece together",
    "for_field('a.b=upper(iterator.key);');": "upper() gives capitals",
    "r=upper(concat(low,'x'));": "upper() gives capitals",
    "r=atan(halfs);": "the arc tangent of 2.5 exists",
    "r=bround('2.5');": "half is rounded to even, as documented",
    "grok('logline','%{TIMESTAMP_ISO8601:ts} %{LOGLEVEL:level} %{GREEDYDATA:rest}');": "patterns inside others give no fields",
    "grok('log','%{IPORHOST:client} %{WORD:method} %{URIPATHPARAM:request} %{INT:size} %{NUMBER:duration}');": (
        "patterns inside others give no fields"
    ),
    "r=tobase64(low);": "a text has bytes",
    "r=hashcode(low);": "the hash of the value, not of the field's name",
    "r=hashcode(cn);": "the hash of the value, not of the field's name",
    "r=initcap(low);": "the value, not the field's name",
    "r=translate(s,'lo','01');": "characters are replaced one by one, as documented",
    "r=low=='abc';": "a comparison is true or false",
}
"""Scripts whose results are others, and why."""

REFUSED = ("innerJoin", "in_namelist", "distinct", "env", "groovy", "py", "split")
"""Functions of which cases are errors here: what they need does not exist, or their fields are not known before the run."""

DECLARED: Mapping[str, Mapping[str, str]] = {
    "split(log,'|','a','b');": {"log2": "string"},
    "split_array(data);": {"n": "bigint"},
    "json_expand('js');": {"a": "string", "name": "string"},
    "parse_express(log,' ');": dict.fromkeys(("act", "src", "msg"), "string"),
    "express(log,'&');": dict.fromkeys("ab", "string"),
    "parse_express(log,',');": dict.fromkeys("abc", "string"),
    "paserByComma(csv);": dict.fromkeys((f"csv{number}" for number in range(5)), "string"),
}
"""Scripts whose fields only the run shows → the option ``fields`` of the step."""


def plain(value: Any) -> Any:
    """A value as the stored results have it."""
    if isinstance(value, bytes):
        return "b64:" + base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime):
        return int(value.timestamp() * 1000)
    if isinstance(value, list):
        return dict(value) if value and isinstance(value[0], tuple) else [plain(one) for one in value]
    return {name: plain(one) for name, one in value.items()} if isinstance(value, dict) else value


def is_same(one: Any, other: Any) -> bool:
    """Equality of JSON values: of numbers by their value, of JSON texts by what they hold, without members that are null."""
    one, other = as_json(one), as_json(other)
    if isinstance(one, dict) and isinstance(other, dict):
        one, other = ({name: as_json(v) for name, v in side.items() if v is not None} for side in (one, other))
        one, other = flat(one), flat(other)
        return one.keys() == other.keys() and all(is_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == pytest.approx(other, rel=1e-12)
    return one == other


def _run_case(case: Mapping[str, Any]) -> tuple[Any, Any]:
    """What a script gives, and what it should give."""
    rows = [plain(row) for row in run_script(case["expr"], case["message"], DECLARED.get(case["expr"]))]
    if case["type"] == "records":
        return _sorted(rows), _sorted(case["result"])
    row = rows[0] if len(rows) == 1 else rows
    if "record" in case:
        return row, case["record"]
    value = row.get("r") if isinstance(row, dict) else row
    is_json_member = isinstance(value, str) and isinstance(case["result"], int) and "json" in case["expr"].lower()
    return value, str(case["result"]) if is_json_member else case["result"]


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True, default=str))


def _outcome(name: str, case: Mapping[str, Any]) -> str:
    if case.get("bug"):
        return "bug"
    try:
        if case.get("volatile"):
            types_after(case["expr"], case["message"])
            return "equal"
        found, expected = _run_case(case)
    except SourceError as error:
        if case["type"] in ("absent", "error"):
            return "equal"  # the old engine logs an error and gives no value
        return "refused" if name in REFUSED and error.hint else f"refused: {error}"
    if is_same(found, expected):
        return "equal"
    return "otherwise" if case["expr"] in OTHERWISE else f"{found!r} instead of {expected!r}"


@pytest.mark.slow
def test_script_functions_give_what_they_give_there(acceptance: Path) -> None:
    lines = (acceptance / "rsql" / "script_functions.jsonl").read_text("utf-8").splitlines()
    outcomes: Counter[str] = Counter()
    wrong = []
    for entry in map(json.loads, lines):
        for case in entry["cases"]:
            outcome = _outcome(entry["name"], case)
            outcomes[outcome] += 1
            if outcome not in ("bug", "equal", "otherwise", "refused"):
                wrong.append(f"{case['expr']}: {outcome}")

    assert not wrong, "\n".join(wrong)
    assert outcomes == {"bug": 186, "equal": 548, "otherwise": 20, "refused": 8}
