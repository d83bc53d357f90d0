"""The Arrow form of an expression has Spark's type, values and errors."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from etl.api import format_type
from etl.expressions import analyse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Agree = Callable[..., None]

COMPARISONS = ["=", "<>", "<", "<=", ">", ">=", "<=>"]
PAIRS = [
    ("s", "t"), ("i", "j"), ("i", "l"), ("y", "i"), ("d", "e"), ("f", "d"), ("i", "d"), ("l", "f"), ("b", "c"), ("ts", "day"),
    ("i", "1.5"), ("l", "-2.50"), ("d", "1.5"), ("f", "2.5"), ("s", "null"), ("y", "300"),
    ("day", "'2020-02-29'"), ("ts", "'1970-01-01'"), ("s", "'abc'"), ("d", "0"), ("d", "double('nan')"),
]  # fmt: skip


def test_comparisons(agree: Agree) -> None:
    agree([f"{a} {op} {b}" for (a, b), op in product(PAIRS, COMPARISONS)])
    agree([f"{a} {op} {b}" for (a, b), op in product([("i", "s"), ("s", "d"), ("b", "s"), ("s", "1.5")], ["=", "<=", "<=>"])])


def test_logic_with_three_values(agree: Agree) -> None:
    agree(
        [
            "b and c", "b or c", "not b", "b and not c or b", "b and null", "null or c", "b = c", "b is true", "b is not false",
            "s is null", "s is not null", "not (b and c)", "b <=> null", "b and i > 0 and d > 0",
        ]
    )  # fmt: skip


def test_functions_of_arrays(agree: Agree) -> None:
    one, other = "array(s, 'a', null, s)", "if(b, array(t, 'a'), null)"
    agree(
        [
            f"array_contains({one}, 'a')", f"array_contains({one}, t)", f"array_contains({other}, s)",
            f"array_union({one}, {other})",
            f"array_distinct({one})", f"array_append({other}, s)", f"concat({one}, {other})", f"get({one}, i)",
            f"get({other}, 1)",
            "array_contains(array(i, j), 42)", "array_distinct(array(i, j, i))", "array_union(array(ts), array(ts))",
        ]
    )  # fmt: skip


def test_lists_and_ranges(agree: Agree) -> None:
    agree(
        [
            "s in ('a', 'abc', 'é')", "s in ('a', null)", "s not in ('a', 'b')", "s not in ('a', null)", "i in (1, 2, 42)",
            "i in (1, 3000000000)", "d in (0.0D, double('nan'), 1)", "i in (1, j)", "i between 0 and 42",
            "i not between 0 and 42",
            "i between j and l", "s between 'a' and 'b'", "d between 0 and 1e10", "i in (1.5, 2)", "y in (1, 127)",
        ]
    )  # fmt: skip


def test_arithmetic(agree: Agree) -> None:
    numbers = [("i", "j"), ("l", "m"), ("y", "y"), ("i", "l"), ("y", "3"), ("i", "-1")]
    agree([f"{a} {op} {b}" for (a, b), op in product(numbers, ["+", "-", "*", "/", "%", "div"])])
    agree([f"{a} {op} {b}" for (a, b), op in product([("d", "e"), ("i", "d"), ("f", "d"), ("f", "f")], ["+", "-", "*", "/"])])
    agree(
        [
            "-i", "-l", "-d", "-y", "abs(i)", "abs(y)", "abs(d)", "floor(d)", "ceil(d)", "floor(i)", "round(d)",
            "round(f)", "round(i)", "round(l, 2)", "i + s", "s - 1", "s / 2", "-2147483648", "1e3 * i", "-(-i)", "5 div i",
        ]
    )  # fmt: skip


def test_casts(agree: Agree) -> None:
    sources = ["s", "i", "l", "y", "d", "f", "b", "ts"]
    targets = ["boolean", "tinyint", "smallint", "int", "bigint", "float", "double"]
    agree([f"{word}({a} as {t})" for word, a, t in product(["cast", "try_cast"], sources, targets) if (a, t) not in _NO_CAST])
    agree([f"{word}(s as {t})" for word, t in product(["cast", "try_cast"], ["date", "timestamp"])])
    agree([f"cast({a} as string)" for a in ["s", "i", "l", "y", "b", "ts", "day"]])
    agree(["cast(i as timestamp)", "cast(l as timestamp)", "cast(ts as date)", "cast(day as timestamp)", "i::bigint", "int(d)"])


_NO_CAST = {("ts", "boolean"), ("ts", "float")}


def test_conditionals_are_lazy(agree: Agree) -> None:
    agree(
        [
            "case when i > 0 then s when i < 0 then t end", "case i when 1 then 'one' when 2 then 'two' else s end",
            "case when b then i else d end", "case when b then i else s end", "if(b, i, l)", "if(b, 1, null)",
            "coalesce(s, t, 'x')",
            "coalesce(i, l)", "coalesce(null, i)", "nvl(s, '?')", "ifnull(i, 0)", "nvl2(s, i, j)", "nullif(i, 1)",
            "nullif(s, 'a')",
            "isnull(s)", "isnotnull(i)", "isnan(d)",
            "case when i = 0 then 0 else 10 / i end", "i <> 0 and 10 / i > 1", "i = 0 or 10 / i > 1", "coalesce(i, 1 / 0)",
            "s is not null and cast(s as int) > 3", "if(s rlike '^[0-9]{1,5}$', cast(s as int), -1)",
            "coalesce(j, cast(s as int))",
            "i / j + cast(s as int)", "b and cast(s as boolean)", "try_cast(s as int) in (42, 7)",
        ]
    )  # fmt: skip


def test_texts(agree: Agree) -> None:
    agree([f"{name}(s)" for name in ("lower", "upper", "trim", "ltrim", "rtrim", "length", "char_length", "lcase", "ucase")])
    agree([f"substring(s, {n})" for n in (-5, -2, -1, 0, 1, 2, 9)])
    agree([f"substring(s, {n}, {k})" for n, k in product((-5, -2, 0, 1, 3), (-1, 0, 1, 3, 2147483647))])
    agree([f"{name}(s, {n})" for name, n in product(("left", "right"), (-1, 0, 2, 100))])
    agree([f"split_part(s, '{d}', {n})" for d, n in product((",", "abc", "", "\\\\"), (1, 2, 3, -1, -2, -9))])
    agree([f"{name}(s, '{x}')" for name, x in product(("startswith", "endswith", "contains"), ("", "a", "é", "\\n", "%", "."))])
    agree(
        [
            "concat(s, t)", "concat(s, '-', i)", "s || t", "concat_ws('-', s, t, i)", "concat_ws(s, t, 'x')", "concat_ws(',')",
            "conv(s, 16, 10)", "conv(s, 10, 16)", "conv(t, 36, 2)", "conv(i, 10, 8)", "conv('-1', 10, 16)", "conv(' 7', 8, 2)",
            "concat()", "replace(s, 'a', 'xy')", "replace(s, 'b')", "replace(s, '', 'x')", "trim(both from s)",
            "substring(s from 2 for 1)",
            "r'a''\\n'", "'a' R\"b\"\"c\" 'd'",
            "'it''s'", "''''", "'' ''", '"a""b"', "\"it's\"", "'a''\\'b'", "'a\"\"b'", "s like '%''%'", "s in ('''', 'a''b')",
            "lower(i)", "length(b)", "'a' 'b'", "r'\\d' || s", "\"dq\" || s", "'it\\'s\\t\\u00e9' || s",
        ]
    )  # fmt: skip


def test_patterns(agree: Agree) -> None:
    likes = ["a%", "%c", "%b%", "_", "__", "a_c", "", "%", "a\\\\%b", "%\\\\\\\\%", "a%c", "%\n%", "é%", "[a]", "a.c"]
    agree([f"s {word} '{p}'" for p, word in product(likes, ("like", "ilike"))] + [f"s not like '{p}'" for p in likes[:3]])
    agree(["s like 'a/%b' escape '/'", "s ilike 'A/%B' escape '/'", "s not ilike 'É%'", "s ilike '%ς'", "'a\nb' like '%_b'"])
    regexes = [
        "a", "^a", "c$", "^abc$", "a.c", "[a-c]+", "[^a]", r"\\d+", r"\\s", r"\\w+$", r"^\\W", "(?i)ABC", "(?i)[a-b]É", "a|é",
        "(ab|x)c?",
        ".", "^$", "", r"\\.", r"[\\d,]+", r"a{1,2}", "x$", r"\\A.\\z", "(?s)a.b", r"\\x61", r"\\u00e9", "^.$", "(?i)k", "[-a]",
        "[a-]$", "a|b$", r"(\\s|$)", "a(?=b|$)", r"(?<![a-z])b", r"(?<=^|,)b", "(?>a|ab)c", "a++b", "x*?x", "(?!a)b", r"\\Z",
        r"\\Qa.\\E|,", r"[^\\W\\d]", r"\\p{Upper}", "a(?i)B", r"\\x{1F600}x", r"[\\v]", r"a\\h?b", ".*b.*", "^(?s).*c", "(?-i)a",
    ]  # fmt: skip
    agree([f"s rlike '{p}'" for p in regexes] + [f"regexp_like(s, '{p}')" for p in regexes[:2]])
    agree(
        [
            f"regexp_extract(s, '{p}', {n})"
            for p, n in [("(a)(b)?", 1), ("(a)(b)?", 2), ("([0-9]+)", 0), ("^(.)", 1), ("(c)$", 0), ("(x)|(a)", 1),
                         (r"(\\w+)(?=\\W|$)", 1), (r"(\\s|$)", 1), ("(?<n>b|c$)", 1), (r"(\\d+)+", 1), ("a(?:b(c))?", 1),
                         ("(?>a|ab)(c?+)", 0), (".*?([^,]*)$", 1)]
        ]
        + ["regexp_extract('xay', '(a)', 1)", "'abc' rlike 'b'", "regexp_substr(s, '[a-c]+')", "regexp_substr(s, 'x*')"]
        + [f"regexp_instr(s, '{p}')" for p in ("b", "x$", r"(?<!a)b", "é|b", "[^a]x")]
        + [f"regexp_count(s, '{p}')" for p in ("a", "[a-c]", r"\\d+", "aa|a", r"\\W")]
    )  # fmt: skip
    agree(
        [
            f"regexp_replace(s, '{p}', '{r}')"
            for p, r in [("a", "x"), ("(a)(b)", "$2$1"), ("[0-9]+", "#"), ("\\\\s", ""), ("b", "\\\\$1"), ("a", "\\\\\\\\")]
        ]
    )


def test_times(agree: Agree) -> None:
    days = ("year", "quarter", "month", "day", "dayofmonth", "dayofyear", "dayofweek", "weekday", "weekofyear")
    agree([f"{name}({a})" for name, a in product(days, ("ts", "day", "'2024-02-29'"))])
    agree([f"{name}({a})" for name, a in product(("hour", "minute", "second"), ("ts", "day"))])
    units = ("year", "QUARTER", "mon", "week", "dd", "hour", "minute", "second", "millisecond", "microsecond")
    agree([f"date_trunc('{unit}', ts)" for unit in units])


def test_times_as_texts(agree: Agree) -> None:
    patterns = [
        "yyyy-MM-dd", "HH:mm", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd HH:mm:ss.SSS", "yy/M/d h:m:s a", "EEE, d MMM yyyy",
        "EEEE MMMM D DDD",
        "y yyy SSSSSS SSSSSSSSS", "k K hh", "'week' HH", "",
    ]  # fmt: skip
    quoted = [pattern.replace("'", "\\'") for pattern in patterns]
    agree([f"date_format({time}, '{pattern}')" for time in ("ts", "day") for pattern in quoted])
    agree(
        [
            "unix_timestamp(ts)",
            "unix_seconds(ts)",
            "unix_millis(ts)",
            "unix_micros(ts)",
            "to_date(s)",
            "to_timestamp(s)",
            "to_date(ts)",
        ]
    )
    agree(
        [
            "extract(year from ts)",
            "extract(month from date '2026-11-29')",
            "extract(hour from timestamp'2026-11-29 05:06')",
            "ts > timestamp '2020-01-01 00:00:00'",
            "day = date '2020-02-29'",
            "ts between '1960-01-01' and '2000-01-01'",
        ]
    )


def test_times_of_numbers(agree: Agree) -> None:
    agree(
        ["timestamp_seconds(i)", "timestamp_seconds(d)", "timestamp_seconds(f)", "timestamp_seconds(y)", "timestamp_seconds(e)"]
    )
    agree(["timestamp_millis(i)", "timestamp_micros(l)", "timestamp_micros(i)", "timestamp_millis(year(ts))"])


def test_least_and_greatest(agree: Agree) -> None:
    pairs = [("i", "j"), ("i", "l"), ("d", "e"), ("f", "d"), ("i", "d"), ("s", "t"), ("ts", "day"), ("b", "c"), ("d", "1.5"),
             ("i", "null"), ("y", "3")]  # fmt: skip
    agree([f"{name}({a}, {b})" for name, (a, b) in product(("least", "greatest"), pairs)])
    agree(["least(i, j, y, 5)", "greatest(d, e, f, 0)", "greatest(5 div i, j)", "least(s, t, 'b', null)"])


def test_mathematics(agree: Agree) -> None:
    exact = [
        f"{name}({a})" for name, a in product(("sqrt", "radians", "degrees", "sign", "signum", "rint"), ("d", "i", "f", "l"))
    ]
    agree([*exact, "pi() * i", "e() + d", "sqrt(null)", "mod(i, j)", "mod(l, 7)", "sqrt(cast(s as double))"])
    functions = ("sin", "cos", "tan", "asin", "acos", "atan", "exp", "ln", "log")
    agree([f"{name}({a})" for name, a in product(functions, ("d", "f", "i"))], ulps=2)
    agree([f"{name}({a})" for name, a in product(("atan2", "pow", "power"), ("d, e", "e, d", "i, d", "d, 2", "10, y"))], ulps=2)


def test_results_that_programs_round_are_exact(agree: Agree) -> None:
    agree(["pow(i, 2)", "pow(y, 3)", "pow(d, 1)", "pow(10, least(abs(y), 9))", "exp(0)", "ln(1)", "cos(0)", "atan2(0, d)"])


PATTERNS = ["yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ss", "dd/MM/yyyy HH:mm:ss", "yyyy-MM-dd HH:mm:ss.SSS", "yyyy-MM-dd",
            "yyyy-MM-dd'T'HH:mm:ssXXX", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"]  # fmt: skip
STAMPS = [
    "2020-01-02 03:04:05", "2020-01-02T03:04:05", "2020-01-02t03:04:05", "02/01/2020 03:04:05", "2020-01-02 03:04:05.1",
    "2020-01-02 03:04:05.123", "2020-01-02 03:04:05.1234", "2020-01-02T03:04:05Z", "2020-01-02T03:04:05z", "2020-01-02",
    "2020-01-02T03:04:05+18:00", "2020-01-02T03:04:05+18:01", "2020-01-02T03:04:05-01:30", "2020-01-02T03:04:05+0130",
    "2020-01-02T03:04:05+01", "2020-01-02T03:04:05+01:60", "2020-01-02T03:04:05.5+01:00", "2020-01-02T03:04:05.123-00:00",
    "-0001-01-02 03:04:05", "-0000-01-02 03:04:05", "+12020-01-02 03:04:05", "12020-01-02 03:04:05", "-12020-01-02 03:04:05",
    "+2020-01-02 03:04:05", "0000-01-01", "1582-10-10", "1900-02-29", "2000-02-29", "2021-04-31", "2021-13-01", "2021-00-01",
    "2020-01-02 24:00:00", "2020-01-02 23:60:00", "2020-01-02 23:59:60", " 2020-01-02", "2020-01-02 ", "2020-1-2",
    "\uff12020-01-02", "2020-01-02 10", "2020-01-02 10:11Z", "2020-01-02T", "2020-01-02 10:11:12+1:2", "290000-01-01 01:02:03",
    "300000-01-01 01:02:03", "1234567-01-01", "2020-01-02 10:11:12 GMT", "2020-01-02 10:11:12+01:30:15", "2020-01-02 10:11:12.",
    "", None,
]  # fmt: skip


def test_times_of_a_pattern(agree: Agree, schema: pa.Schema) -> None:
    batch = pa.RecordBatch.from_pylist([{"s": text} for text in STAMPS], schema=schema)
    quoted = [pattern.replace("'", "\\'") for pattern in PATTERNS]
    agree([f"to_timestamp(s, '{pattern}')" for pattern in quoted], batch, tried=5)
    agree([f"try_to_timestamp(s, '{pattern}')" for pattern in quoted], batch)
    agree(
        ["to_date(s, 'yyyy-MM-dd')", "to_timestamp(s)", "try_to_timestamp(s)", "to_date(s)", "try_cast(s as date)"],
        batch,
        tried=5,
    )


def test_addresses(agree: Agree) -> None:
    agree(
        [
            "ip_in(source.ip, '10.0.0.0/8')",
            "ip_in(s, '10.0.0.0/12', '2001:db8::/32')",
            "not ip_in(`source.ip`, '::/0')",
            "ip_in(s, '10.1.2.3')",
            "community_id(source.ip, '10.0.0.1', 1, 2, 'tcp')",
            "entropy(source.ip)",
        ]
    )


def test_arrays(agree: Agree) -> None:
    agree(
        [
            "array(s, t)", "array(i, l)", "array(s, null)", "array('x', 'y')", "array(i, y)", "array(ts)", "array(b, c)",
            "array_compact(array(s, t))", "array_join(array(s, null, t), ', ')",
            "array_compact(array(i, null, j))", "array_compact(split(s, ','))",
            "split(s, ',')", "split(s, 'a')", "split(s, '\\\\.')", "split(s, ', ')",
            "case when b then array(s) end", "if(b, array(s), array(t, s))", "case when b then array(s) when c then null end",
            "coalesce(case when b then array(s) end, array(t))",
        ]
    )  # fmt: skip


def test_places_and_sizes(agree: Agree) -> None:
    searches = ("", "a", "b,c", "é", "本", "😀", "x", "\\n", "ABCD")
    agree([f"instr(s, '{text}')" for text in searches] + [f"locate('{text}', s)" for text in searches])
    agree([f"locate('{text}', s, {n})" for text, n in product(("", "a", "本", "x"), (-1, 0, 1, 2, 3, 99))])
    agree(["position('b' in s)", "position('b', s)", "locate('1', l)", "instr('abc', 'c')"])
    agree(["size(split(s, ','))", "cardinality(array(s, t))", "array_size(split(s, 'a'))", "size(array(1, 2, null))"])
    agree(["size(case when b then array(s) end)", "instr(null, 'a')", "size(split(s, 'a')) > 1 and instr(s, 'a') > 1"])


def test_hashes_and_bytes(agree: Agree) -> None:
    agree(
        [f"{name}({value})" for name, value in product(("md5", "sha1", "sha", "crc32"), ("s", "'abc'", "unhex(s)", "lower(t)"))]
    )
    agree([f"sha2(s, {bits})" for bits in (0, 224, 256, 384, 512, 1, -1)] + ["sha2(unhex('FF'), 256)"])
    agree([f"hex({value})" for value in ("s", "i", "l", "y", "'é'", "-1", "unhex(s)", "255")])
    agree(["unhex(s)", "unhex('F')", "unhex('')", "unhex('0aFf')", "unhex('xy')", "unhex(hex(s))", "hex(md5(s))"])


def test_bits(agree: Agree) -> None:
    pairs = [("i", "j"), ("l", "m"), ("i", "l"), ("y", "i"), ("i", "7"), ("y", "bits"), ("-1", "l"), ("y", "y")]
    agree([f"{one} {sign} {other}" for sign, (one, other) in product("&|^", pairs)])
    agree([f"~{one}" for one in ("i", "l", "y", "bits", "5")] + ["~i & 255 = 3", "i & null"])
    shifts = ("shiftleft", "shiftright", "shiftrightunsigned")
    agree([f"{name}({one}, {other})" for name, one, other in product(shifts, ("i", "l", "y"), ("bits", "3", "-1", "64"))])
    agree(["i << 2", "l >> 3", "bit_count(i)", "bit_count(l)", "bit_count(y)", "bit_count(b)", "bit_count(-1)"])


def test_days_and_intervals(agree: Agree) -> None:
    agree(
        [f"{name}({day}, {n})" for name, day, n in product(("date_add", "date_sub", "dateadd"), ("day", "ts"), ("i", "y", "-3"))]
    )
    agree(["date_add('2024-02-28', 2)", "date_sub(s, 1)", "datediff(day, ts)", "date_diff(ts, '1970-01-01')", "datediff(s, day)"])
    lengths = ("1 hour", "-90 minutes", "2 weeks", "1 day", "'3 days 4 hours'", "5 seconds", "250 milliseconds", "1 microsecond")
    agree([f"ts {sign} interval {length}" for sign, length in product("+-", lengths)])
    agree(["interval 1 hour + ts", "day + interval 3 hours", "day - interval '1 day 2 hours'", "ts - (interval 1 hour) > day"])


def test_comparisons_of_decimals(agree: Agree) -> None:
    pairs = [("p", "q"), ("p", "1"), ("q", "i"), ("l", "q"), ("p", "1.50"), ("y", "p"), ("p", "d"), ("d", "q"), ("p", "null")]
    signs = ("=", "<>", "<", "<=", ">", ">=", "<=>")
    agree([f"{one} {sign} {other}" for sign, (one, other) in product(signs, pairs)])
    agree(["p between -1 and 42", "p in (1, 1.5, null)", "p not in (q, 42)", "nullif(p, 1.5)", "p is null or q > 0"])
    agree(["cast(p as double)", "double(q)", "q * d", "sqrt(cast(q as double))", "p = '1.5'"])


def test_types_of_sums_and_products_of_decimals_are_those_of_spark(spark: SparkSession, schema: pa.Schema) -> None:
    signs = ("+", "-", "*", "/", "%")
    wide = "cast(q as decimal(38,10))"
    pairs = [
        ("p", "q"),
        ("p", "1"),
        ("12345", "q"),
        ("p", "i"),
        ("l", "q"),
        ("p", "1.50"),
        (wide, wide),
        (wide, "p"),
        ("l", "1.5"),
    ]
    texts = [f"{one} {sign} {other}" for sign, (one, other) in product(signs, pairs)]
    fields = ", ".join(f"`{field.name}` {format_type(field.type)}" for field in schema)

    columns = spark.createDataFrame([], fields).selectExpr(*texts).schema

    found = {text: format_type(analyse(text, schema).type) for text in texts}
    assert found == {text: field.dataType.simpleString() for text, field in zip(texts, columns, strict=True)}
