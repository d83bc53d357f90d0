"""The component that an unknown `type` means, and what replaces components of other tools.

The names are those of components in Vector, Logstash, Fluent Bit, Benthos, Flink SQL, Kafka Connect and Telegraf.
"""

from __future__ import annotations

from collections.abc import Mapping

from etl.api import Family
from etl.catalogue import Catalogue

_CLOSE_ENOUGH = 0.75
"""Of difflib's measure, from 0 to 1: `fiel` and `file` have 0.75, `dedupe` and `decode` 0.67."""

_BRANCHES = "give several streams the same `from`, each with a filter of its own"
_PARSERS = "a parser for the format: json, key_value, csv, grok, regex, dissect, syslog, timestamp …"

_STEPS = {
    "deduplicate dedup distinct unique fingerprint": "`dedupe` passes one event of each key within a time; the sinks database "
    "(mode: upsert) and elasticsearch (id) write a key once",
    "merge_streams join_streams temporal_join interval_join asof_join": "`join` pairs events of two streams; "
    "`lookup` adds columns of a table",
    "union merge concat": "a stream reads several inputs: from: [a, b]",
    "route switch if case branch split_stream clone fork tee exclusive_route swimlanes": _BRANCHES,
    "rate_limit ratelimit": "`throttle` limits the events of a key in a span of time",
    "lag lead window_function analytic running_total rolling moving_average": "`over` adds values computed from the events "
    "of a key before, such as lag(x) and sum(x)",
    "alert_throttle silence mute debounce aggregate_alerts": "`suppress` passes one event of a key in a time and "
    "counts the others",
    "rank top_n topn top_k row_number dense_rank": "`top` passes the best events of each key in each span of time, with ranks",
    "limit take head first sample sampling": "there is no such step; `filter` passes events by a condition, "
    "and `etl run --once` ends when all is read",
    "sort order order_by orderby": "a stream has no end to sort towards; sort where the events are stored",
    "mutate": "set (values), rename, convert (types), drop and keep (fields)",
    "remap vrl mapping map bloblang transform eval compute calculate assign add_fields add_field add update modify "
    "record_modifier derive withcolumn with_column": "`set` gives fields the values of "
    "expressions: {type: set, fields: {name: expression}}",
    "parse parser decode_json parse_json json_parser": _PARSERS,
    "aggregate aggregation group group_by groupby reduce count sum metrics log_to_metric tumble hop session tumbling_window "
    "sliding_window collect": "`window` groups events by time and fields: {type: window, time: …, size: 10m, "
    "aggregates: {n: count(*)}}",
    "where condition grep having": "`filter` passes the events a condition is true for: {type: filter, where: …}",
    "project projection columns pick": "`keep` keeps fields, `set` computes them, `select` does both",
    "remove remove_field remove_fields delete prune exclude": "`drop` drops fields; `filter` drops events",
    "cast astype coerce typecast": "`convert` gives fields other types",
    "date parse_date parse_timestamp strptime datetime": "`timestamp` reads times",
    "kv parse_key_value keyvalue logfmt": "`key_value` reads pairs",
    "explode flatten flat_map flatmap split unroll": "`unnest` makes an event of each element of an array",
    "translate enrich enrichment enrichment_tables enrichment_table dictionary lookup_table": "`lookup` adds columns of a table",
    "useragent ua": "`user_agent` reads texts of web clients",
    "geo geo_ip geolocation maxmind": "`geoip` looks up places of addresses",
    "nginx apache httpd access_log combined clf": "`weblog` reads access and error logs of web servers",
    "rfc5424 rfc3164": "`syslog` reads lines of RFC 5424 and 3164",
    "lua ruby javascript js exec wasm code udf": "`python` calls a function of a Python file; `set` takes Spark SQL",
    "sigma detect detection alert alerts": "`rules` matches Sigma rules and conditions in Spark SQL",
    "correlation": "`correlate` gives an alert for each burst of matches",
    "print log stdout debug": "`console` is a sink: sink: {type: console}",
    "multiline": "`multiline` is an option of the sources file and stdin",
    "regexp parse_regex re": "`regex` reads named groups",
    "tokenize": "`dissect` cuts texts at delimiters",
}
_SOURCES = {
    "tail files logfile log filebeat fs filesystem folder directory": "`file` follows text files: {type: file, path: …}",
    "logstash_beats lumberjack filebeat_input": '`beats` receives what Beats send: {type: beats, listen: ["tcp://[::]:5044"]}',
    "fluent fluentd fluentbit fluent_bit": "`forward` receives from Fluentd and Fluent Bit: {type: forward, listen: […]}",
    "http_server webhook splunk_hec hec loki otlp opentelemetry": "`http` receives events over HTTP: {type: http, "
    "listen: […], format: …}",
    "tcp udp socket": "there is none; `syslog` receives over TCP, TLS and UDP",
    "journal systemd systemd_journal journalctl": "`journald` reads the files of the journal: {type: journald}",
    "mysql postgres postgresql mariadb sqlite jdbc sql cdc": "`database` reads tables: {type: database, url: …}",
    "es opensearch elastic": "`elasticsearch` reads OpenSearch, too",
    "s3 aws_s3 gcs parquet delta csv json iceberg": "`spark` reads what Spark reads: {type: spark, format: parquet, path: …}; "
    "lines of text files are read by `file`",
    "demo demo_logs random dummy faker datagen": "`generate` makes up events",
    "exec command": "there is none; pipe its output to {type: stdin}",
    "valkey": "`redis` reads streams of Valkey, too",
    "nats pulsar amqp rabbitmq kinesis pubsub": "there is none yet; kafka, rocketmq, mqtt and redis are the queues that are read",
}
_SINKS = {
    "stdout print debug show": "`console` prints events",
    "null blackhole drop devnull dev_null none": "`discard` counts events and forgets them",
    "mysql postgres postgresql mariadb sqlite jdbc sql": "`database` writes rows: {type: database, url: …, table: …}",
    "es opensearch elastic opensearch_sink": "`elasticsearch` writes to OpenSearch, too",
    "webhook http_client rest": "`http` sends events to a web server",
    "slack teams msteams discord mattermost rocketchat": "`chat` sends messages: {type: chat, service: slack, url: …, text: …}",
    "grafana_loki": "`loki` sends to Grafana Loki: {type: loki, urls: […], labels: {job: …}}",
    "delta deltalake delta_lake iceberg hudi": "`lake` writes to them: {type: lake, format: delta, table: …}",
    "splunk hec splunk_hec_logs": "`splunk_hec` sends to Splunk's HTTP Event Collector: {type: splunk_hec, urls: […], token: …}",
    "otlp otel otlphttp": "`opentelemetry` sends log records over OTLP/HTTP: {type: opentelemetry, urls: […]}",
    "files fs filesystem folder directory parquet csv json jsonl s3 aws_s3": "`file` writes JSON lines, CSV and Parquet: "
    "{type: file, path: …, format: …}",
    "valkey": "`redis` writes to Valkey, too",
    "nats pulsar amqp rabbitmq kinesis pubsub mongodb": "there is none yet; kafka, rocketmq, http, "
    "database, elasticsearch and clickhouse reach other systems",
    "mail smtp sendmail": "`email` sends mails: {type: email, server: smtp://…, sender: …, to: […], subject: …, text: …}",
}


_TABLES = {
    "csv json jsonl parquet yaml": "`file` reads CSV, JSON lines and Parquet: {type: file, path: …, key: …}",
    "mysql postgres postgresql mariadb sqlite jdbc sql": "`database` reads a table: {type: database, url: …, table: …, key: …}",
    "static values map dict list": "`inline` holds rows in the file itself",
    "url rest api web": "`http` fetches a table from a web server",
}


def _by_name(table: Mapping[str, str]) -> Mapping[str, str]:
    return {name: advice for names, advice in table.items() for name in names.split()}


_ADVICE: Mapping[Family, Mapping[str, str]] = {
    "step": _by_name(_STEPS),
    "source": _by_name(_SOURCES),
    "sink": _by_name(_SINKS),
    "table": _by_name(_TABLES),
}


def advice(family: Family, name: str) -> str | None:
    """What to use instead of a component of another tool, or None."""
    return _ADVICE[family].get(_plain(name))


def advised_type(family: Family, name: str, catalogue: Catalogue) -> str | None:
    """The component of this family that replaces one of another tool, if the advice begins with it, or None."""
    first = (advice(family, name) or "").partition("` ")[0].removeprefix("`")
    return first if first in catalogue.families[family] else None


def meant_type(family: Family, name: str, catalogue: Catalogue) -> str | None:
    """The component whose name is misspelt so, or None."""
    known = list(catalogue.families[family])
    if _plain(name) in known:
        return _plain(name)
    if advice(family, name) or any(name in members for members in catalogue.families.values()):
        return None
    from difflib import get_close_matches  # 8 ms, for files with a misspelt name only

    close = get_close_matches(_plain(name), known, n=1, cutoff=_CLOSE_ENOUGH)
    return close[0] if close else None


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")
