"""Random queries in the words that scripts and DuckDB have in common, and random rows for them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

COLUMNS = {"id": "BIGINT", "k": "STRING", "n": "INT", "x": "DOUBLE", "s": "STRING", "b": "BOOLEAN", "t": "TIMESTAMP(3)"}
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
TEXTS = ("", "a", "ab", "B", "c%", "d_e", "ä", "aaa")


def rows(chance: Random, count: int) -> list[dict[str, Any]]:
    """Rows whose ``id`` and ``t`` are unique; other values may be null."""
    seconds = chance.sample(range(600), count)
    return [
        {
            "id": number,
            "k": chance.choice("pqr"),
            "n": chance.choice((None, *range(-3, 8))),
            "x": chance.choice((None, 0.0, -1.5, 2.25, 1e6)),
            "s": chance.choice((None, *TEXTS)),
            "b": chance.choice((None, True, False)),
            "t": f"2026-01-01 10:{second // 60:02d}:{second % 60:02d}",
        }
        for number, second in enumerate(seconds)
    ]


@dataclass
class Maker:
    """Makes expressions over the columns of ``table`` and queries."""

    chance: Random
    table: str = ""

    def column(self, name: str) -> str:
        return f"{self.table}.{name}" if self.table else name

    def integer(self, depth: int = 2) -> str:
        if depth == 0:
            return self.chance.choice((self.column("n"), self.column("id"), str(self.chance.randint(-9, 9))))
        one, other = self.integer(depth - 1), self.integer(depth - 1)
        return self.chance.choice(
            (
                f"({one} {self.chance.choice('+-*')} {other})",
                f"abs({one})",
                f"coalesce({one}, {other})",
                f"CASE WHEN {self.condition(depth - 1)} THEN {one} ELSE {other} END",
                f"nullif({one}, {other})",
                f"char_length({self.text(0)})",
                one,
            )
        )

    def text(self, depth: int = 2) -> str:
        if depth == 0:
            return self.chance.choice((self.column("s"), self.column("k"), f"'{self.chance.choice(TEXTS)}'"))
        one, other = self.text(depth - 1), self.text(depth - 1)
        return self.chance.choice(
            (
                f"upper({one})",
                f"lower({one})",
                f"({one} || {other})",
                f"coalesce({one}, {other})",
                f"substring({one}, 1, {self.chance.randint(1, 3)})",
                f"CASE {self.column('k')} WHEN 'p' THEN {one} WHEN 'q' THEN {other} END",
                f"trim({one})",
                one,
            )
        )

    def number(self) -> str:
        x = self.column("x")
        return self.chance.choice(
            (x, f"({x} * 2)", f"({x} + {self.integer(1)})", f"CAST({self.integer(1)} AS DOUBLE)", f"abs({x})")
        )

    def condition(self, depth: int = 2) -> str:
        if depth == 0:
            return self.chance.choice(
                (
                    self.column("b"),
                    f"{self.integer(0)} {self.chance.choice(('<', '<=', '=', '<>', '>'))} {self.integer(0)}",
                    f"{self.text(0)} {self.chance.choice(('<', '=', '<>'))} {self.text(0)}",
                    f"{self.column('s')} LIKE '{self.chance.choice(('a%', '%b', '_', '%'))}'",
                    f"{self.column('n')} {self.chance.choice(('IS', 'IS NOT'))} NULL",
                    f"{self.column('n')} {self.chance.choice(('IN', 'NOT IN'))} (1, 2, 5)",
                    f"{self.column('n')} BETWEEN 0 AND {self.chance.randint(0, 6)}",
                )
            )
        one, other = self.condition(depth - 1), self.condition(depth - 1)
        return self.chance.choice((f"({one} AND {other})", f"({one} OR {other})", f"NOT ({one})", one))

    def select(self) -> str:
        """A list of expressions and a condition."""
        makers = (self.integer, self.text, self.number, self.condition)
        items = [self.chance.choice(makers)() for _ in range(self.chance.randint(1, 4))]
        where = f" WHERE {self.condition()}" if self.chance.random() < 0.7 else ""
        return f"SELECT {', '.join(f'{one} AS c{at}' for at, one in enumerate(items))} FROM events{where}"

    def aggregates(self) -> str:
        choices = [
            "count(*)",
            f"count({self.integer(1)})",
            f"sum({self.integer(1)})",
            f"min({self.text(1)})",
            f"max({self.integer(1)})",
            "count(DISTINCT n)",
            f"count(*) FILTER (WHERE {self.condition(1)})",
            f"sum({self.column('n')} + 1)",
        ]
        return ", ".join(f"{one} AS a{at}" for at, one in enumerate(self.chance.sample(choices, 3)))

    def window(self) -> tuple[str, str]:
        """The script's query, and DuckDB's."""
        size = self.chance.choice((1, 2, 5))
        having = self.chance.choice(("", " HAVING count(*) > 1"))
        where = f" WHERE {self.condition(1)}" if self.chance.random() < 0.5 else ""
        items = self.aggregates()
        script = f"SELECT k, {items} FROM events{where} GROUP BY k, TUMBLE(t, INTERVAL '{size}' MINUTE){having}"
        return script, f"SELECT k, {items} FROM events{where} GROUP BY k, time_bucket(INTERVAL '{size}' MINUTE, t){having}"

    def grouping_sets(self) -> tuple[str, str]:
        sets = self.chance.choice(("GROUPING SETS ((k), (s), ())", "ROLLUP (k, b)", "CUBE (k, b)"))
        keys = "k, s, GROUPING(k) AS gk, GROUPING(s) AS gs" if "(s)" in sets else "k, b, GROUPING(k) AS gk, GROUPING(b) AS gb"
        items, window = self.aggregates(), "TUMBLE(t, INTERVAL '5' MINUTE)"
        text = f"SELECT {keys}, {items} FROM events GROUP BY {sets}, "
        return text + window, text + "time_bucket(INTERVAL '5' MINUTE, t)"

    def join(self) -> tuple[str, str]:
        kind = self.chance.choice(("JOIN", "LEFT JOIN", "FULL JOIN"))
        left, right = Maker(self.chance, "l"), Maker(self.chance, "r")
        before, after = self.chance.randint(0, 60), self.chance.randint(0, 90)
        bounds = f"r.t BETWEEN l.t - INTERVAL '{before}' SECOND AND l.t + INTERVAL '{after}' SECOND"
        more = self.chance.choice(("", " AND r.n > l.n"))
        items = f"l.id AS li, r.id AS ri, {left.text(1)} AS c, {right.integer(1)} AS d"
        text = f"SELECT {items} FROM events l {kind} others r ON l.k = r.k AND {bounds}{more}"
        return text, text

    def member(self) -> tuple[str, str]:
        right = Maker(self.chance, "r")
        bounds = "r.t BETWEEN l.t - INTERVAL '30' SECOND AND l.t + INTERVAL '30' SECOND"
        rows = f"SELECT 1 FROM others r WHERE r.k = l.k AND {bounds} AND {right.condition(0)}"
        condition = f"{self.chance.choice(('', 'NOT '))}EXISTS ({rows})"
        text = f"SELECT l.id, l.k FROM events l WHERE {condition} AND {Maker(self.chance, 'l').condition(0)}"
        return text, text

    def top(self) -> tuple[str, str]:
        count, order = self.chance.randint(1, 3), self.chance.choice(("DESC", "ASC"))
        rank = self.chance.choice(("ROW_NUMBER()", "RANK()", "DENSE_RANK()"))
        bounds = "window_start, window_end"
        inner = f"SELECT k, {bounds}, max(id) AS m FROM {{}} GROUP BY k, {bounds}"
        ranked = f"SELECT *, {rank} OVER (PARTITION BY {bounds} ORDER BY m {order}) AS p FROM ({inner}) AS w"
        text = f"SELECT k, m, p FROM ({ranked}) AS z WHERE p <= {count}"
        start = "time_bucket(INTERVAL '2' MINUTE, t)"
        spans = f"(SELECT *, {start} AS window_start, {start} AS window_end FROM events)"
        return text.format("TABLE(TUMBLE(TABLE events, DESCRIPTOR(t), INTERVAL '2' MINUTE))"), text.format(spans)

    def over(self) -> tuple[str, str]:
        frame = self.chance.choice(
            (
                "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
                "RANGE BETWEEN INTERVAL '45' SECOND PRECEDING AND CURRENT ROW",
            )
        )
        text = f"SELECT id, sum(n) OVER w AS a, count({self.column('s')}) OVER w AS c, min(n) OVER w AS d FROM events"
        text += f" WINDOW w AS (PARTITION BY k ORDER BY t {frame})"
        return text, text

    def distinct(self) -> tuple[str, str]:
        one, other = self.text(1), self.text(1)
        text = self.chance.choice(
            (f"SELECT DISTINCT {one} AS c FROM events", f"SELECT {one} AS c FROM events UNION SELECT {other} AS c FROM others")
        )
        return text, text

    # ── Results that change ──

    def counted(self, table: str, keys: str = "knb") -> str:
        """A query with a row for each value of one of these columns, in brackets."""
        key = self.chance.choice(keys)
        where = f" WHERE {self.condition(1)}" if self.chance.random() < 0.5 else ""
        having = self.chance.choice(("", "", " HAVING count(*) > 2"))
        value = self.chance.choice(("count(*)", "sum(n)", "max(id)", "min(n)"))
        return f"(SELECT {key} AS g, {value} AS v FROM {table}{where} GROUP BY {key}{having})"

    def changing_join(self) -> str:
        """A join of rows or results without bounds in time."""
        kind = self.chance.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        left, right = Maker(self.chance, "l"), Maker(self.chance, "r")
        more = self.chance.choice(("", " AND r.n > l.n", " AND l.n > 0", " AND r.id > 20"))
        if self.chance.random() < 0.5:
            on = self.chance.choice(("l.k = r.k", "l.n = r.n", "l.n = r.n AND l.k = r.k", "l.n + 1 = r.n"))
            where = self.chance.choice(("", " WHERE l.n > 1", " WHERE r.b", " WHERE r.n IS NULL"))
            return f"SELECT l.id AS a, r.id AS b, {left.text(1)} AS c FROM events l {kind} others r ON {on}{more}{where}"
        where = self.chance.choice(("", " WHERE v > 3", f" WHERE {right.condition(0)}"))
        key = self.chance.choice("knb")
        sides = f"{self.counted('events', key)} AS l {kind} others r ON l.g = r.{key}"
        return f"SELECT l.g AS a, l.v AS v, r.id AS b FROM {sides}{where}"

    def value_query(self) -> str:
        """A query as a value."""
        inner = Maker(self.chance, "r")
        aggregate = self.chance.choice(("max(r.n)", "min(r.id)", "count(*)", "sum(r.n)", "count(r.n) + 1"))
        correlated = self.chance.choice(("", " AND r.k = l.k", " AND r.n = l.n"))
        value = f"(SELECT {aggregate} FROM others r WHERE {inner.condition(0)}{correlated})"
        form = self.chance.randint(0, 2)
        if form == 0:
            return f"SELECT l.id AS a FROM events l WHERE l.n {self.chance.choice(('<', '>=', '=', '<>'))} {value}"
        if form == 1:
            return f"SELECT l.id AS a, {value} AS b FROM events l WHERE {Maker(self.chance, 'l').condition(0)}"
        value = value.replace(" AND r.n = l.n", "")
        return f"SELECT l.k AS k, count(*) AS c FROM events l GROUP BY l.k HAVING max(l.id) > {value.replace('l.k', 'k')}"

    def condition_query(self) -> str:
        """IN and EXISTS, also inside of expressions."""
        inner = Maker(self.chance, "r")
        negated = self.chance.choice(("", "NOT "))
        tests = (
            f"l.n {negated}IN (SELECT r.n FROM others r WHERE {inner.condition(0)})",
            f"l.n {negated}IN (SELECT g FROM {self.counted('others', 'n')} AS q)",
            f"{negated}EXISTS (SELECT 1 FROM others r WHERE r.k = l.k AND r.n > l.n AND {inner.condition(0)})",
            f"{negated}EXISTS (SELECT 1 FROM others r WHERE {inner.condition(0)} AND r.n > 6)",
            f"l.n {negated}IN (SELECT r.n FROM others r WHERE r.k = l.k)",
            f"l.n {negated}IN (SELECT r.n FROM others r WHERE r.k = l.k AND r.n IS NOT NULL)",
            f"l.n {self.chance.choice(COMPARISONS)} ANY (SELECT r.n FROM others r WHERE {inner.condition(0)})",
            f"l.n {self.chance.choice(COMPARISONS)} ALL (SELECT g FROM {self.counted('others', 'n')} AS q WHERE g > 4)",
        )
        one, other = self.chance.choice(tests), Maker(self.chance, "l").condition(0)
        rows = "SELECT r.n, r.k FROM others r"
        if self.chance.random() < 0.1:
            return f"SELECT l.id AS a FROM events l WHERE (l.n, l.k) IN ({rows} WHERE {inner.condition(0)})"
        form = self.chance.randint(0, 2)
        if form == 0:
            return f"SELECT l.id AS a FROM events l WHERE {one} AND {other}"
        if "AND r.n > l.n" in one:
            one = one.replace("AND r.n > l.n", "AND r.n = l.n")
        if form == 1:
            return f"SELECT l.id AS a FROM events l WHERE {one} OR {other}"
        return f"SELECT l.id AS a, {one} AS b FROM events l"

    def set_operation(self) -> str:
        """UNION, INTERSECT and EXCEPT of rows or results."""
        word = self.chance.choice(("UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"))
        if self.chance.random() < 0.3:
            one, other = self.counted("events"), self.counted("others")
            return f"SELECT v AS a FROM {one} AS x {word} SELECT v AS a FROM {other} AS y"
        one, other = self.chance.choice((("s", "k"), ("n", "n"), ("b", "b"), ("n, k", "n, k")))
        return f"SELECT {one} FROM events WHERE {self.condition(0)} {word} SELECT {other} FROM others WHERE {self.condition(0)}"

    def totals(self) -> str:
        """Groups without a window, and groups of them."""
        if self.chance.random() < 0.5:
            return f"SELECT k, {self.aggregates()} FROM events WHERE {self.condition(0)} GROUP BY k"
        key = self.chance.choice(("v", "g"))
        more = self.chance.choice(("max(v)", "count(DISTINCT v)", "sum(v)", "min(v)"))
        return f"SELECT {key}, count(*) AS c, {more} AS m FROM {self.counted('events')} AS q GROUP BY {key}"

    def best(self) -> str:
        """The best rows over all time."""
        rank, order = self.chance.choice((("ROW_NUMBER()", "id"), ("RANK()", "n"), ("DENSE_RANK()", "n"))), "NULLS LAST"
        way = self.chance.choice(("DESC", "ASC"))
        key = self.chance.choice(("PARTITION BY k ", ""))
        limit = self.chance.choice(("<= 2", "= 1", "<= 3", "BETWEEN 2 AND 3"))
        inner = f"SELECT id, k, {rank[0]} OVER ({key}ORDER BY {rank[1]} {way} {order}) AS p FROM events"
        return f"SELECT id, k, p FROM ({inner}) AS z WHERE p {limit}"

    # ── Queries over queries ──

    def rows_of_query(self) -> str:
        """A query with the columns id, k and n, of which k and n may be null, in brackets."""
        word, one = self.chance.choice(("UNION ALL", "UNION", "INTERSECT", "EXCEPT")), self.condition(1)
        more = self.chance.choice(("", " AND r.id > 9", " AND r.n > 2"))
        best = "SELECT id, k, n, ROW_NUMBER() OVER (PARTITION BY n ORDER BY id DESC) AS p FROM events"
        return self.chance.choice(
            (
                f"(SELECT id, k, n FROM events WHERE {one} {word} SELECT id, k, n FROM others)",
                f"(SELECT DISTINCT n AS id, CASE WHEN {one} THEN k END AS k, n FROM events)",
                f"(SELECT l.id AS id, r.k AS k, r.n AS n FROM events l LEFT JOIN others r ON l.n = r.n{more})",
                f"(SELECT r.id AS id, l.k AS k, l.n AS n FROM events l FULL JOIN others r ON l.n = r.n{more})",
                f"(SELECT max(id) AS id, k, n FROM events WHERE {one} GROUP BY k, n)",
                f"(SELECT id, k, n FROM ({best}) AS z WHERE p <= 2)",
                f"(SELECT id, k, n FROM events WHERE n NOT IN (SELECT n FROM others WHERE {self.condition(0)} AND id > 20))",
            )
        )

    def nested(self) -> str:
        """A query over the rows of another one."""
        rows, where = self.rows_of_query(), self.chance.choice(("", " WHERE n > 1", " WHERE k IS NULL OR n < 5", " WHERE id > n"))
        kind, rank = (
            self.chance.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")),
            self.chance.choice(("RANK", "DENSE_RANK")),
        )
        others = self.rows_of_query()
        small = "(SELECT * FROM others WHERE id < 20)"
        ranked = f"SELECT id, k, {rank}() OVER (PARTITION BY k ORDER BY n DESC NULLS LAST) AS p FROM {rows} AS u{where}"
        return self.chance.choice(
            (
                f"SELECT k, count(*) AS c, sum(n) AS s, count(DISTINCT n) AS d, min(id) AS m FROM {rows} AS u{where} GROUP BY k",
                f"SELECT count(*) AS c, max(n) AS m FROM {rows} AS u{where} HAVING count(*) > 0",
                f"SELECT DISTINCT k, n FROM {rows} AS u{where}",
                f"SELECT id, CASE WHEN n IN (SELECT n FROM others) THEN k ELSE 'no' END AS c FROM {rows} AS u{where}",
                f"SELECT u.id AS a, o.id AS b FROM {rows} AS u {kind} {small} AS o ON u.n = o.n AND o.id > 3",
                f"SELECT id, k, p FROM ({ranked}) AS z WHERE p <= 2",
                f"SELECT k AS c FROM {rows} AS u UNION SELECT s AS c FROM events",
                f"SELECT id FROM {rows} AS u WHERE EXISTS (SELECT 1 FROM {others} AS v WHERE v.n = u.n AND v.id <> u.id)",
                f"SELECT id, (SELECT max(v.id) FROM {others} AS v WHERE v.n = u.n) AS m FROM {rows} AS u{where}",
            )
        )
