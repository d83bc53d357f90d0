"""Random pipelines from the components' option models: most are valid, some have a small mistake.

Options are drawn from the schema that lint itself goes by: their types, bounds, choices and examples; the fields that they name
are those that reach the component. What a schema cannot tell, such as patterns, queries and expressions, has a maker below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from random_expressions import condition, expression
from random_stateful import DURATIONS, STATEFUL, TIMESTAMP, join

from etl.api import Schema, visible
from etl.catalogue import Catalogue
from etl.config.schema import pipeline_schema
from etl.config.stream_schemas import merge

Options = dict[str, Any]
Incoming = Schema | dict[str, Schema]
"""The incoming fields of a component, or those of each side of a join."""

FIELDS = (
    "level",
    "source.ip",
    "source.port",
    "user_name",
    "host.name",
    "took",
    "bytes",
    "event.id",
    "tags",
    "labels",
    "at",
    "n",
    "Level",
)
"""Names for new fields."""
TYPES = (
    *("string", "string", "int", "bigint", "double", "boolean", "timestamp", "date", "decimal(10,2)", "array<string>"),
    *("smallint", "float", "binary", "array<int>", "map<string,string>", "array<struct<id: int, name: string>>"),
)
EXISTING = frozenset(
    [
        *("field", "time", "time_field", "sample", "group_by", "group_fields", "id", "key"),
        *("on", "routing", "value_field", "tag_field", "queue_field", "body_field", "key_fields", "ip"),
        *("user", "hosts", "hash", "icmp_type", "icmp_code", "keys", "distinct", "list"),
    ]
)
"""Options of steps and sinks that name existing fields."""
CALLING = ("python", "keyed_python")
"""Steps that call a function of the file: a random file declares none, so that lint refuses them."""
TRIES = 8
OFF = 0.03
"""The share of choices with a small mistake."""


class Maker:
    """Makes pipelines; ``folder`` holds the files that they name."""

    def __init__(self, chance: Random, catalogue: Catalogue, folder: Path) -> None:
        self.chance = chance
        self.families = catalogue.families
        self.defs: Mapping[str, Any] = pipeline_schema(catalogue)["$defs"]
        self.folder = folder
        self.tables: dict[str, Options] = {}

    # ── The whole ──

    def pipeline(self) -> Options:
        """Sources, streams that read them or one another, sinks."""
        chance = self.chance
        self.tables = self._tables() if self.maybe(0.4) else {}
        sources = {
            f"source{number}": self._drawn("source", self._source, pa.schema([]))
            for number in range(chance.choice((1, 1, 1, 2, 3)))
        }
        known = {name: self._fields("source", options, None) for name, options in sources.items()}
        streams: dict[str, Options] = {}
        for number in range(chance.choice((1, 1, 2, 3))):
            feeds = chance.sample(list(known), min(len(known), chance.choice((1, 1, 1, 2))))
            fields = merge([known[feed] for feed in feeds])
            steps = []
            if self.maybe(0.2):
                feeds = chance.sample(list(known), min(len(known), chance.choice((1, 2, 2, 2))))
                sides = {feed: known[feed] for feed in feeds}
                steps.append(self._drawn("step", lambda sides=sides: join(self, sides), sides))  # type: ignore[misc]
                fields = self._fields("step", steps[-1], sides)
            for _ in range(chance.choice((1, 2, 2, 3, 4, 5))):
                steps.append(self._drawn("step", lambda fields=fields: self._step(fields), fields))  # type: ignore[misc]
                fields = self._fields("step", steps[-1], fields)
            streams[f"stream{number}"] = {"from": feeds if len(feeds) > 1 else feeds[0], "steps": steps}
            known[f"stream{number}"] = fields
        sinks = {}
        for number in range(chance.choice((1, 1, 2))):
            feeds = chance.sample(list(known), min(len(known), chance.choice((1, 1, 1, 2))))
            fields = merge([known[feed] for feed in feeds])
            sink = self._drawn("sink", lambda fields=fields, number=number: self._sink(fields, number), fields)  # type: ignore[misc]
            sinks[f"sink{number}"] = {"from": feeds if len(feeds) > 1 else feeds[0], **sink}
        if used := {feed for one in (*streams.values(), *sinks.values()) for feed in _listed(one["from"])}:
            left = [name for name in (*sources, *streams) if name not in used]
            sinks |= {f"rest{number}": {"from": name, "type": "discard"} for number, name in enumerate(left)}
        tables = {"tables": self.tables} if self.tables else {}
        return {"name": "random", **tables, "sources": sources, "streams": streams, "sinks": sinks}

    def _drawn(self, family: str, draw: Callable[[], Options], fields: Incoming) -> Options:
        """A component; most components with findings of their own check are replaced by another draw."""
        for _ in range(TRIES):
            options = draw()
            if self.maybe(OFF) or self._accepted(family, options, fields):
                break
        return options

    def _accepted(self, family: str, options: Options, fields: Incoming) -> bool:
        try:
            made: Any = self.families[family][options["type"]].model_validate(options)  # type: ignore[index]
            if family == "step":
                if not set(made.named_tables().values()) <= self.tables.keys():
                    return False
                made = made.with_tables(self._built_tables())
            if isinstance(fields, dict) and any(made.check_inputs(fields)):
                return False
            found = made.check() if family == "source" else made.check(_united(made, fields))
            return not any(one.severity == "error" for one in found)
        except Exception:
            return False

    def _fields(self, family: str, options: Options, incoming: Incoming | None) -> Schema:
        """The fields after a component; the incoming ones if the component has an error."""
        try:
            made: Any = self.families[family][options["type"]].model_validate(options)  # type: ignore[index]
            if incoming is None:
                return visible(made.fields())
            made = made.with_tables(self._built_tables())
            return visible(made.fields(_united(made, incoming)))
        except Exception:
            if isinstance(incoming, dict):
                return merge(incoming.values())
            return pa.schema([]) if incoming is None else incoming

    def _built_tables(self) -> Mapping[str, Any]:
        tables = self.families["table"]
        return {name: tables[str(options["type"])].model_validate(options) for name, options in self.tables.items()}

    # ── Components ──

    def _source(self) -> Options:
        kinds = (
            "file",
            "file",
            "generate",
            "kafka",
            "rocketmq",
            "syslog",
            "stdin",
            "elasticsearch",
            "database",
            "spark",
            "spark",
        )
        kind = self.chance.choice(kinds)
        if kind == "spark":
            return self._spark_source()
        made = self.options("source", kind, pa.schema([]))
        if kind == "file":
            made["path"] = str(self.folder / "in" / self.chance.choice(("a.log", "*.log")))
        if kind == "database":
            made["url"] = "sqlite:///" + str(self.folder / "in.db")
            made.pop("query", None)
            made["table"] = "logs"
        for secret in ("password", "api_key", "token", "tls", "user"):
            made.pop(secret, None)
        return made

    def _spark_source(self) -> Options:
        kind = self.chance.choice(("rate", "rate", "json", "csv", "text"))
        if kind == "rate":
            return {"type": "spark", "format": "rate", "streaming": True}
        made: Options = {"type": "spark", "format": kind, "path": str(self.folder / "in" / "none"), "streaming": self.maybe(0.7)}
        return made if kind == "text" else made | {"fields": self._declared(TYPES[:10] if kind == "csv" else TYPES)}

    def _step(self, fields: Schema) -> Options:
        rare = {"join", *CALLING}
        kinds = [kind for kind in self.families["step"] if kind not in rare or self.maybe(OFF)]
        likely = (
            "set",
            "filter",
            "convert",
            "window",
            "sql",
            "keep",
            "rename",
            "json",
            "lookup",
            "rules",
            "timestamp",
            *STATEFUL,
        )
        kind = self.chance.choice((*kinds, *likely, *likely))
        if kind in STATEFUL and not any(one.type == TIMESTAMP for one in fields) and self.maybe(0.4):
            return {"type": "set", "fields": {"at": "current_timestamp()"}}
        maker = _MAKERS.get(kind)
        return maker(self, fields) if maker else self.options("step", kind, fields)

    def _sink(self, fields: Schema, number: int) -> Options:
        kind = self.chance.choice(
            ("file", "file", "file", "console", "discard", "kafka", "http", "elasticsearch", "rocketmq", "database")
        )
        made = self.options("sink", kind, fields)
        if kind == "file":
            made["path"] = f"{self.folder}/out/{number}-" + self._placeholders(fields)
        if kind == "elasticsearch":
            made["index"] = f"logs-{number}-" + self._placeholders(fields)
        if kind == "kafka":
            made["topic"] = self.chance.choice((f"out{number}", f"out{number}-" + self._placeholders(fields)))
        if kind == "database":
            made |= {"url": f"sqlite:///{self.folder}/out{number}.db", "table": f"t{number}"}
            if "columns" in made:
                made["columns"] = {name: name.replace(".", "_") for name in self.some(fields.names)}
        for secret in ("password", "api_key", "token", "tls", "user", "batch", "retry", "spool", "template"):
            made.pop(secret, None)
        return made

    def _placeholders(self, fields: Schema) -> str:
        date = self.chance.choice(("", "", "{yyyy-MM-dd}", "{yyyy.MM.dd}"))
        name = f"-{{{self.field(fields)}}}" if self.maybe(0.2) else ""
        return f"x{date}{name}" + self.chance.choice(("", "", "/"))

    # ── Options by their schema ──

    def options(self, family: str, kind: str, fields: Schema, share: float = 0.25, without: Sequence[str] = ()) -> Options:
        schema = self.defs[f"{family}.{kind}"]
        made: Options = {"type": kind}
        for name, option in schema["properties"].items():
            if name in ("type", "from", *without) or (name not in schema.get("required", ()) and not self.maybe(share)):
                continue
            value = self._value(name, option, fields, family != "source")
            if value is not None:
                made[name] = value
        return made

    def _value(self, name: str, schema: Mapping[str, Any], fields: Schema, names_fields: bool) -> Any:
        chance = self.chance
        if "$ref" in schema:
            schema = {**self.defs[schema["$ref"].rpartition("/")[2]], **schema}
        if names_fields and name in EXISTING:
            few = {"type": "array"} in [{"type": one.get("type")} for one in (schema, *schema.get("anyOf", ()))]
            expected = pa.timestamp("us", "UTC") if name.startswith("time") else pa.string() if name == "field" else None
            return self.some(fields.names, 2) if few else self.field(fields, expected)
        if schema.get("format") == "spark-sql":
            return condition(chance, fields)
        if schema.get("examples") and self.maybe(0.6):
            return chance.choice(schema["examples"])
        if "anyOf" in schema:
            branches = [one for one in schema["anyOf"] if one.get("type") != "null"]
            return self._value(name, chance.choice(branches), fields, names_fields) if branches else None
        if "enum" in schema:
            return chance.choice(schema["enum"])
        return self._of_type(name, schema, fields, names_fields)

    def _of_type(self, name: str, schema: Mapping[str, Any], fields: Schema, names_fields: bool) -> Any:
        chance, kind = self.chance, schema.get("type")
        if kind == "boolean":
            return chance.random() < 0.5
        if kind in ("integer", "number"):
            low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
            return chance.randint(int(low), int(min(schema.get("maximum", low + 1000), low + 1000)))
        if kind == "array":
            item = self._value("", schema.get("items", {}), fields, names_fields)
            return None if item is None else [item]
        if kind == "object":
            return self._mapping(schema, fields, names_fields)
        return self._text(schema) if kind == "string" else None

    def _mapping(self, schema: Mapping[str, Any], fields: Schema, names_fields: bool) -> Any:
        if "properties" in schema:
            required = schema.get("required", ())
            options = {key: one for key, one in schema["properties"].items() if key in required or self.maybe(0.2)}
            found = {key: self._value(key, one, fields, names_fields) for key, one in options.items()}
            return {key: value for key, value in found.items() if value is not None}
        return self._declared(TYPES)

    def _text(self, schema: Mapping[str, Any]) -> Any:
        pattern = schema.get("pattern", "")
        if "ms|s|m|h|d" in pattern:
            return self.chance.choice(DURATIONS)
        if "KiB" in pattern:
            return self.chance.choice(("1KiB", "64KiB", "10MB"))
        return self.new() if "A-Za-z_@" in pattern or not pattern else None

    # ── Names and types ──

    def new(self) -> str:
        """A name for a new field."""
        return self.chance.choice(FIELDS)

    def field(self, fields: Schema, expected: pa.DataType | None = None) -> str:
        """An existing field, of this type if there is one; sometimes a missing field."""
        fitting = [one.name for one in fields if expected is None or one.type in (expected, pa.null())]
        if self.maybe(OFF) or not fields.names:
            return self.new()
        return self.chance.choice(fitting if fitting and not self.maybe(OFF) else fields.names)

    def some(self, names: Sequence[str], maximum: int = 4) -> list[str]:
        found = self.chance.sample(list(names), min(len(names), self.chance.randint(1, maximum)))
        return [*found, "unheard_of"] if not found or self.maybe(OFF) else found

    def _declared(self, types: Sequence[str], maximum: int = 5) -> dict[str, str]:
        return {name: self.chance.choice(types) for name in self.chance.sample(FIELDS, self.chance.randint(1, maximum))}

    def maybe(self, share: float) -> bool:
        return self.chance.random() < share

    # ── What schemas cannot tell ──

    def _tables(self) -> dict[str, Options]:
        chance = self.chance
        code: Options = {"type": "inline", "key": ["code"], "columns": {"code": chance.choice(("int", "bigint", "string"))}}
        code["rows"] = [{"code": 4, "meaning": "four", "score": 1}, {"code": 5, "meaning": "five", "score": 2}]
        code["columns"]["score"] = chance.choice(("int", "double", "string"))
        networks: Options = {"type": "inline", "key": ["net"], "rows": [{"net": "10.0.0.0/8", "zone": "in"}]}
        ports: Options = {"type": "inline", "key": ["low", "high"], "columns": {"low": "bigint", "high": "bigint"}}
        ports["rows"] = [{"low": 0, "high": 1023, "kind": "system"}]
        return {"code": code, "networks": networks, "ports": ports}

    def lookup(self, fields: Schema) -> Options:
        table = self.chance.choice(("code", "code", "networks", "ports"))
        match = {"code": ("exact",), "networks": ("cidr", "prefix", "like", "exact"), "ports": ("range",)}[table]
        column = {"code": ("meaning", "score"), "networks": ("zone",), "ports": ("kind",)}[table]
        made = self.options("step", "lookup", fields, 0.2, ("table", "match", "add", "on", "defaults"))
        expected = self.chance.choice((pa.string(), pa.int32(), pa.int64()))
        on = self.field(fields, expected)
        made |= {"table": table, "match": self.chance.choice(match), "add": {self.new(): self.chance.choice(column)}, "on": on}
        return made

    def set(self, fields: Schema) -> Options:
        names = [self.new() if self.maybe(0.7) else self.field(fields) for _ in range(self.chance.randint(1, 4))]
        return {"type": "set", "fields": {name: expression(self.chance, fields) for name in names}}

    def filter(self, fields: Schema) -> Options:
        where = expression(self.chance, fields) if self.maybe(OFF) else condition(self.chance, fields)
        return {"type": "filter", "where": where}

    def keep(self, fields: Schema) -> Options:
        return {"type": "keep", "fields": self.some([*fields.names, *(name.split(".")[0] for name in fields.names)], 6)}

    def drop(self, fields: Schema) -> Options:
        return {"type": "drop", "fields": self.some([*fields.names, *(name.split(".")[0] for name in fields.names)], 2)}

    def rename(self, fields: Schema) -> Options:
        return {"type": "rename", "fields": {name: self.new() for name in self.some(fields.names, 2)}}

    def convert(self, fields: Schema) -> Options:
        names = self.some(fields.names, 3)
        return self.options("step", "convert", fields, 0.2) | {"fields": {name: self.chance.choice(TYPES) for name in names}}

    def sql(self, fields: Schema) -> Options:
        chance = self.chance
        items = ["*"] if self.maybe(0.5) else [_dotted(name) for name in self.some(fields.names)]
        items += [
            f"{expression(chance, fields)} as {name.replace('.', '_')}"
            for name in {self.new() for _ in range(chance.randint(0, 2))}
        ]
        view, arrays = "", [one.name for one in fields if pa.types.is_list(one.type)]
        if arrays and self.maybe(0.5):
            view = f" lateral view {chance.choice(('', 'outer '))}explode({_dotted(chance.choice(arrays))}) v as item"
            items.append("item")
        where = f" where {condition(chance, fields)}" if self.maybe(0.5) else ""
        return {"type": "sql", "query": f"select {', '.join(items)} from events{view}{where}"}

    def unnest(self, fields: Schema) -> Options:
        arrays = [one.name for one in fields if pa.types.is_list(one.type)]
        if not arrays and not self.maybe(0.1):
            return {"type": "set", "fields": {"tags": "array('a', 'b')"}}
        made = self.options("step", "unnest", fields, 0.3, ("field",))
        return made | {"field": self.chance.choice(arrays or ["tags"])}

    def rules(self, fields: Schema) -> Options:
        made = self.options("step", "rules", fields, 0.3, ("files", "tables", "fields", "placeholders", "rules", "metadata"))
        return made | {"rules": self.own_rules(fields)}

    def own_rules(self, fields: Schema) -> list[Options]:
        count = self.chance.randint(1, 3)
        return [{"name": f"rule {number}", "where": condition(self.chance, fields)} for number in range(count)]

    def grok(self, fields: Schema) -> Options:
        parts = (
            "%{IP:source.ip}",
            "%{WORD:level}",
            "%{NUMBER:took:float}",
            "%{INT:n:int}",
            "%{GREEDYDATA:message}",
            "%{TIMESTAMP_ISO8601:at}",
        )
        made = self.options("step", "grok", fields, 0.1, ("patterns", "pattern_definitions", "pattern_files"))
        return made | {
            "patterns": [" ".join(self.chance.sample(parts, self.chance.randint(1, 3))) for _ in range(self.chance.randint(1, 2))]
        }

    def regex(self, fields: Schema) -> Options:
        parts = (r"(?<level>\w+)", r"(?<n>\d+)", r"(?P<user_name>[a-z]+)", r".*", r"(?<source.ip>[\d.]+)")
        made = self.options("step", "regex", fields, 0.1, ("patterns",))
        return made | {"patterns": [" ".join(self.chance.sample(parts, self.chance.randint(1, 3)))]}

    def dissect(self, fields: Schema) -> Options:
        made = self.options("step", "dissect", fields, 0.2, ("pattern", "fields"))
        return made | {
            "pattern": self.chance.choice(
                ("%{level} %{rest}", "%{source.ip} - %{text}", "%{+at} %{+at} %{message}", "%{a->} [%{b}]")
            )
        }

    def csv(self, fields: Schema) -> Options:
        names = self.chance.sample(FIELDS, self.chance.randint(1, 5))
        made = self.options("step", "csv", fields, 0.2, ("names", "fields", "header"))
        types = {name: self.chance.choice(TYPES) for name in names if self.maybe(0.3)}
        return made | {"names": names} | ({"fields": types} if types else {})

    def timestamp(self, fields: Schema) -> Options:
        made = self.options("step", "timestamp", fields, 0.3, ("formats", "timezone"))
        formats = ("iso8601", "syslog", "yyyy-MM-dd HH:mm:ss,SSS", "unix_seconds", "unix_millis", "dd/MMM/yyyy:HH:mm:ss Z")
        return made | {"formats": self.chance.sample(formats, self.chance.randint(1, 2))}


def _united(made: Any, fields: Incoming) -> Schema:
    united: Schema = made.united(fields) if isinstance(fields, dict) else fields
    return united


def _dotted(name: str) -> str:
    return ".".join(f"`{part}`" for part in name.split("."))


def _listed(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names


_MAKERS: Mapping[str, Callable[[Maker, Schema], Options]] = {
    "set": Maker.set, "filter": Maker.filter, "keep": Maker.keep, "drop": Maker.drop, "rename": Maker.rename,
    "convert": Maker.convert, "sql": Maker.sql, "unnest": Maker.unnest, "rules": Maker.rules,
    "lookup": Maker.lookup, "grok": Maker.grok, "regex": Maker.regex, "dissect": Maker.dissect,
    "csv": Maker.csv, "timestamp": Maker.timestamp, **STATEFUL,
}  # fmt: skip
