"""The aggregates of a window, as texts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from etl.aggregates.checks import check_aggregate
from etl.aggregates.signatures import FUNCTIONS
from etl.api import TIMESTAMP
from etl.steps.window import Window

SCHEMA = pa.schema(
    [
        ("time", TIMESTAMP),
        ("source.ip", pa.string()),
        ("port", pa.int32()),
        ("weight", pa.float32()),
        ("price", pa.decimal128(10, 2)),
        ("ok", pa.bool_()),
        ("tags", pa.map_(pa.string(), pa.string())),
        ("whatever", pa.null()),
    ]
)

BUCKET = pa.struct([("from", pa.float64()), ("to", pa.float64()), ("count", pa.int64())])


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("count(*)", pa.int64()),
        ("count(source.ip)", pa.int64()),
        ("COUNT(DISTINCT source.ip)", pa.int64()),
        ("count_if(port > 1000)", pa.int64()),
        ("sum(port)", pa.int64()),
        ("sum(weight)", pa.float64()),
        ("sum(price)", pa.decimal128(20, 2)),
        ("sum(whatever)", pa.null()),
        ("avg(port)", pa.float64()),
        ("avg(price)", pa.decimal128(14, 6)),
        ("min(source.ip)", pa.string()),
        ("max(time)", TIMESTAMP),
        ("approx_count_distinct(port)", pa.int64()),
        ("approx_count_distinct(port, 0.02)", pa.int64()),
        ("first(tags)", pa.map_(pa.string(), pa.string())),
        ("last(ok)", pa.bool_()),
        ("collect(source.ip, 100)", pa.list_(pa.string())),
        ("percentile(port, 0.95)", pa.float64()),
        ("approx_percentile(port, 1)", pa.int32()),
        ("variance(port)", pa.float64()),
        ("stddev(price)", pa.float64()),
        ("correlation(port, weight)", pa.float64()),
        ("min_by(tags, port)", pa.map_(pa.string(), pa.string())),
        ("max_by(source.ip, time)", pa.string()),
        ("mode(source.ip)", pa.string()),
        ("top(port, 10)", pa.list_(pa.struct([("value", pa.int32()), ("count", pa.int64())]))),
        ("collect_set(port, 100)", pa.list_(pa.int32())),
        ("approx_top(source.ip, 10)", pa.list_(pa.struct([("value", pa.string()), ("count", pa.int64())]))),
        ("histogram(price, [-1.5, 0, 1e3])", pa.list_(BUCKET)),
        ("histogram(port, 100)", pa.list_(BUCKET)),
        ("per_second(count(*))", pa.float64()),
        ("PER_SECOND(sum(price) filter (where ok))", pa.float64()),
        ("per_second(count(distinct port)) filter (where ok)", pa.float64()),
        ("per_second(sum(whatever))", pa.null()),
        ("count(*) filter (where port in (22, 2222) and (ok or ok))", pa.int64()),
    ],
)
def test_type_of_the_result(text: str, type_: pa.DataType) -> None:
    found = check_aggregate(text, SCHEMA)

    assert found.findings == ()
    assert found.type == type_


def test_fields_looked_at_are_those_of_argument_and_filter() -> None:
    found = check_aggregate("sum(port) filter (where source.ip is not null)", SCHEMA)

    assert found.fields == {"port", "source.ip"}


@pytest.mark.parametrize(
    ("text", "code", "at"),
    [
        ("port", "bad-aggregate", 0),
        ("", "bad-aggregate", 0),
        ("count(*) + 1", "bad-aggregate", 0),
        ("sum(port", "bad-aggregate", 0),
        ("sum('port)", "bad-aggregate", 0),
        ("sum()", "bad-aggregate", 0),
        ("sum(port, port)", "bad-aggregate", 0),
        ("sum(*)", "bad-aggregate", 0),
        ("collect(port)", "bad-aggregate", 0),
        ("collect(port, 0)", "bad-aggregate", 14),
        ("collect(port, 100001)", "bad-aggregate", 14),
        ("collect(port, weight)", "bad-aggregate", 14),
        ("percentile(port, 95)", "bad-aggregate", 17),
        ("percentile(port, x)", "bad-aggregate", 17),
        ("count(*) filter (port > 1)", "bad-aggregate", 0),
        ("count(*) filter (where port)", "wrong-type", 23),
        ("count_if(port)", "wrong-type", 9),
        ("sum(source.ip)", "wrong-type", 4),
        ("min_by(null, port)", "bad-aggregate", 7),
        ("percentile(source.ip, 0.5)", "wrong-type", 11),
        ("max(tags)", "wrong-type", 4),
        ("correlation(port)", "bad-aggregate", 0),
        ("correlation(port, source.ip)", "wrong-type", 18),
        ("max_by(port, tags)", "wrong-type", 13),
        ("max_by(port, prot)", "unknown-field", 13),
        ("collect_set(port, 0)", "bad-aggregate", 18),
        ("approx_top(port, 1001)", "bad-aggregate", 17),
        ("histogram(source.ip, 1)", "wrong-type", 10),
        ("histogram(port)", "bad-aggregate", 0),
        ("histogram(port, 0)", "bad-aggregate", 16),
        ("histogram(port, [])", "bad-aggregate", 16),
        ("histogram(port, [1, 1])", "bad-aggregate", 16),
        ("histogram(port, [1, inf])", "bad-aggregate", 16),
        ("histogram(port, [1, port])", "bad-aggregate", 16),
        ("per_second(port)", "bad-aggregate", 0),
        ("per_second(*)", "bad-aggregate", 0),
        ("per_second(count(*)", "bad-aggregate", 0),
        ("per_second(avg(port))", "bad-aggregate", 0),
        ("per_second(per_second(count(*)))", "unknown-aggregate", 0),
        ("per_second(sum(prot))", "unknown-field", 15),
        ("per_second(count(*) filter (where ok)) filter (where ok)", "bad-aggregate", 0),
        ("total(port)", "unknown-aggregate", 0),
        ("sum(  prot)", "unknown-field", 6),
    ],
)
def test_findings_point_into_the_text(text: str, code: str, at: int) -> None:
    found = check_aggregate(text, SCHEMA).findings

    assert [(f.code, f.at) for f in found] == [(code, at)]


def test_fields_of_both_arguments_are_looked_at() -> None:
    assert check_aggregate("max_by(port, weight) filter (where ok)", SCHEMA).fields == {"port", "weight", "ok"}


def test_a_misspelt_aggregate_gets_the_nearest_name() -> None:
    (found,) = check_aggregate("summ(port)", SCHEMA).findings

    assert found.hint == "did you mean 'sum'?"


def test_rates_are_of_counts_and_sums() -> None:
    (finding,) = check_aggregate("per_second(max(port))", SCHEMA).findings

    assert finding.message == "per_second takes no max(x)"
    assert finding.hint == "it takes count(*), count(distinct x), count_if(condition), sum(x), approx_count_distinct(x, 0.01)"


def test_every_kind_is_written_as_its_form_says() -> None:
    fields = pa.schema([("x", pa.int32()), ("y", pa.int32()), ("condition", pa.bool_())])

    found = {one.form: check_aggregate(one.form, fields).findings for one in FUNCTIONS.values()}

    assert found == dict.fromkeys(found, ())


def test_the_page_of_window_lists_every_aggregate() -> None:
    assert [one.form for one in FUNCTIONS.values() if f"`{one.form}`" not in (Window.__doc__ or "")] == []
