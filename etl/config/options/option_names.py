"""The option that an unknown one means: by spelling, or by its name in other tools.

The names are those of options in Vector, Logstash, Fluent Bit, Benthos, Flink SQL, Kafka Connect and Spark's documentation.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_CLOSE_ENOUGH = 0.7
"""Of difflib's measure, from 0 to 1: `wher` and `where` have 0.89, `brokers` and `properties` 0.47."""

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-. ]")

_MEANT = {
    "servers": "brokers broker bootstrap_servers bootstrap_server nameservers name_servers namesrv namesrv_addr hosts host "
    "addresses address endpoints endpoint urls url",
    "urls": "hosts host endpoints endpoint uri uris address addresses servers server url",
    "url": "uri endpoint address host server connection connection_string jdbc_url dsn urls",
    "listen": "address addresses bind host port ports mode",
    "path": "file files filename file_name file_path filepath paths include location dir directory folder glob output",
    "exclude": "ignore exclude_path exclude_paths ignore_files",
    "where": "condition conditions cond expression expr if when filter predicate",
    "topics": "topic subscribe topic_name",
    "topic": "topics topic_name",
    "commit_group": "group_id group consumer_group",
    "index": "indices index_name index_pattern indexes",
    "table": "table_name collection tablename",
    "query": "sql statement select",
    "user": "username login principal sasl_username",
    "password": "pass passwd pwd sasl_password",
    "token": "bearer access_token bearer_token",
    "tls": "ssl",
    "max_bytes": "max_size size max_file_size maxsize batch_bytes byte_size max_length",
    "max_events": "max_records max_rows batch_size max_docs flush_size records max_count size count",
    "max_batch_bytes": "batch_size batch_bytes max_batch_size",
    "timeout": "flush_interval interval linger linger_ms wait period timeout_secs timeout_ms",
    "format": "codec encoding encoder serializer output_format value_format",
    "compression": "compress gzip codec",
    "patterns": "match grok expression regex regexp matches",
    "pattern": "patterns tokenizer",
    "pattern_definitions": "definitions custom_patterns",
    "fields": "columns schema values set assign add_fields add_field names include",
    "columns": "fields schema",
    "field": "source_field input column source key source_key",
    "target": "target_field output into destination to as prefix",
    "aggregates": "aggregations aggs agg metrics measures aggregate aggregation compute values",
    "group_by": "group groups by keys key partition_by",
    "keys": "fields field columns key by unique_on subset partition_by key_field group_by group",
    "within": "ttl window time_window period cache_ttl duration timespan every interval per for",
    "limit": "threshold rate max_events count events max n k top",
    "by": "order_by sort_by sort rank_by score value",
    "kind": "how join_type",
    "events": "conditions define definitions",
    "every": "window_secs window period interval per time_window duration",
    "late": "lateness watermark allowed_lateness delay max_lateness out_of_orderness watermark_delay",
    "slide": "hop advance every sliding",
    "size": "window length duration width interval period",
    "gap": "session_gap session session_timeout",
    "time": "event_time timestamp timestamp_field time_field ts time_column",
    "time_field": "event_time timestamp timestamp_field time ts time_column",
    "formats": "format patterns layout layouts",
    "timezone": "tz zone",
    "start": "from_beginning scan_startup_mode start_at read_from auto_offset_reset offset start_position offset_reset "
    "initial_offset begin",
    "on_error": "errors tag_on_failure error_policy drop_on_error",
    "keep_field": "keep_source keep_original preserve keep remove_source",
    "follow": "tail watch continuous",
    "key": "keys primary_key unique_key pk id",
    "id": "document_id doc_id _id",
    "delimiter": "separator sep delim",
    "mode": "write_mode insert_mode save_mode",
    "retry": "retries",
    "attempts": "max_attempts retries max_retries tries",
    "initial_backoff": "backoff initial_interval initial_delay delay",
    "max_backoff": "max_interval max_delay",
    "parallelism": "workers threads concurrency cores tasks",
    "trigger": "interval batch_interval processing_time every",
    "on": "key keys join_on using",
    "add": "columns fields select enrich",
    "steps": "processors operators transformations",
    "streams": "transforms",
    "name": "pipeline title",
    "max_age": "interval age period rotation_interval max_time",
    "sources": "inputs",
    "source": "input",
    "sinks": "outputs",
    "sink": "output",
    "dead_letters": "dlq dead_letter dead_letter_queue",
    "from": "inputs input source sources",
    "files": "path paths file rule_files",
}
"""Option → its other names. A name may belong to several options: those that the component has decide."""

_OPTIONS = {option: frozenset(names.split()) for option, names in _MEANT.items()}


def meant_option(name: str, options: Collection[str]) -> str | None:
    """The option that is most likely meant, or None."""
    plain = _WORDS.sub("_", name.removeprefix("properties.")).lower().strip("_")
    if plain in options:
        return plain
    synonyms = [option for option in options if plain in _OPTIONS.get(option, ())]
    if len(synonyms) == 1:
        return synonyms[0]
    from difflib import get_close_matches  # 8 ms, for files with a misspelt name only

    close = get_close_matches(name, list(options), n=1, cutoff=_CLOSE_ENOUGH)
    return close[0] if close else None
