"""Names of Flink's functions in scripts: those with Spark's meaning, and those that do not exist here."""

from __future__ import annotations

from collections.abc import Mapping

_SAME = (
    "upper",
    "lower",
    "char_length",
    "character_length",
    "trim",
    "concat",
    "concat_ws",
    "coalesce",
    "ifnull",
    "nullif",
    "if",
    "sqrt",
    "power",
    "exp",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "degrees",
    "radians",
    "pi",
    "e",
    "hex",
    "md5",
    "sha1",
    "current_database",
)

SAME_AS_SPARK: Mapping[str, str] = {name: name for name in _SAME}
"""Name in scripts → Spark's function with the same meaning for all values."""

UNSUPPORTED: Mapping[str, str] = {
    "current_watermark": "the watermark is that of a whole micro-batch, and no row has one: late rows of windows are counted, "
    "and SET 'table.exec.emit.allow-lateness' takes them",
    "source_watermark": "sources give none: write WATERMARK FOR t AS t - INTERVAL '5' SECOND",
    "call": "a function is called by its name",
    **dict.fromkeys(("object_of", "object_update"), "there are no types of classes; ROW(…) and CAST(… AS ROW<…>) make rows"),
    **dict.fromkeys(("ml_predict", "ml_evaluate", "vector_search"), "there are no models; a function of your own can call one"),
    "group_id": "GROUPING_ID(…) tells the grouping sets apart",
    "streamrecord_timestamp": "declare the source's time as a column: t TIMESTAMP METADATA FROM 'timestamp' VIRTUAL",
    **dict.fromkeys(
        ("tumble", "hop", "cumulate", "session"),
        "windows stand in GROUP BY TUMBLE(time, INTERVAL …), or in FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(time), INTERVAL …))",
    ),
    "descriptor": "it names the time within TABLE(TUMBLE(TABLE t, DESCRIPTOR(time), …))",
    "classifier": "name the variable: MEASURES A.x, B.x",
    **dict.fromkeys(("match_rowtime", "match_proctime"), "they stand in MEASURES of MATCH_RECOGNIZE"),
    **dict.fromkeys(
        ("from_changelog", "to_changelog"), "sinks say which changes they take; 'format' = 'debezium-json' writes changes"
    ),
}
"""Name → why the function does not exist here."""
