"""Random queries in the words that scripts and DuckDB have in common, and random rows for them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

COLUMNS = {"id": "BIGINT", "k": "STRING", "n": "INT", "x": "DOUBLE", "s": "STRING", "b": "BOOLEAN", "t": "TIMESTAMP(3)"}
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
