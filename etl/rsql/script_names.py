"""Names of script functions → the functions that compute them, and why some do not exist here. Case does not count."""

from __future__ import annotations

from collections.abc import Mapping

from etl.expressions.library.catalogue import functions

ALIASES: Mapping[str, str] = {
    "==": "equal",
    "=": "equal",
    "!=": "not_equals",
    "<>": "not_equals",
    ">=": "greateeq",
    ">": "great",
    "<=": "lesseq",
    "<": "less",
    "&": "and",
    "|": "or",
    "!": "not",
    "!if": "not",
    "if": "true",
    "case": "true",
    "!equals": "not_equals",
    "!contain": "not_contain",
    "!regex": "not_regex",
    "!null": "not_null",
    "!isnull": "not_null",
    "notnull": "isnotnull",
    "betweennot": "between_not",
    "convert_boolen": "convertboolen",
    "monthadd": "addmonth",
    "dayadd": "addday",
    "yearadd": "addyear",
    "houradd": "addhour",
    "timestamp": "curstamp",
    "timestamp_second": "curstamp_second",
    "adddate": "dateadd",
    "date": "datepart",
    "dd": "day",
    "hh": "hour",
    "yyyy": "year",
    "ss": "second",
    "week": "weekofyear",
    "dayofweek": "weekday",
    "timestamp2string": "tochar",
    "linuxtime2string": "linuxtochar",
    "datefirst": "datetrunc",
    "unixtime": "unixtimestamp",
    "len": "char_length",
    "low": "lower",
    "tolower": "lower",
    "toupper": "upper",
    "concat_sign": "concat_ws",
    "get": "item",
    "rowtocolumn": "row2column",
    "max_from_array": "in_max",
    "min_from_array": "in_min",
    "size_array": "array_size",
    "tojson": "json",
    "json_generate": "json_create",
    "json_get": "json_value",
    "create_insql": "insql",
    "substr": "substring",
    "char_matchcount": "charmatchcount",
    "char": "chr",
    "indexof": "instr",
    "blink_indexof": "blink_instr",
    "blink_substring": "blink_substr",
    "is_encoding": "isencoding",
    "kv": "keyvalue",
    "str2json": "jsoncreate",
    "lenb": "lengthb",
    "url": "parse_url",
    "reg": "dipperregex",
    "regex_group": "regexgroup",
    "regex_group_index": "regexgroupindex",
    "regexp_extract": "regexgroupindex",
    "regexp_replace": "regexreplace",
    "substr_index": "substringindex",
}
"""Another name → the name in the table of functions, without its prefix."""

TEMPLATES: Mapping[str, tuple[int, int, str]] = {
    "e": (0, 0, "e()"),
    "pi": (0, 0, "pi()"),
    "coalesce": (2, 2, "coalesce({0}, {1})"),
    "now": (0, 1, "date_format(current_timestamp(), {0})"),
    "newdate": (0, 1, "date_format(current_timestamp(), {0})"),
    "getdate": (0, 0, "unix_millis(current_timestamp())"),
    "gettime": (0, 0, "unix_millis(current_timestamp())"),
    "daybegin": (1, 1, "unix_millis(date_trunc('DAY', current_timestamp())) - cast({0} as bigint) * 86400000"),
    "dayend": (1, 1, "unix_millis(date_trunc('DAY', current_timestamp())) + 86399999 - cast({0} as bigint) * 86400000"),
    "uuid": (0, 0, "uuid()"),
    "rand": (0, 1, "rand()"),
    "random": (1, 1, "left(replace(uuid(), '-', ''), cast({0} as int))"),
}
"""Function → its least and most arguments, and Spark SQL of it, with {0}, {1} for its arguments."""
TEMPLATES = {
    **TEMPLATES,
    "begin": TEMPLATES["daybegin"],
    "end": TEMPLATES["dayend"],
    "createrandom": TEMPLATES["random"],
}

_LOOKUP = "put a step lookup with the table before the script"
_CODE = "call a function of a Python file: the step python, or functions of your own"

UNSUPPORTED: Mapping[str, str] = {
    **dict.fromkeys(("intelligence", "qingbao", "left_join_intelligence", "left_join_qingbao"), _LOOKUP),
    **dict.fromkeys(("innerjoin", "inner_join", "leftjoin", "left_join"), _LOOKUP),
    **dict.fromkeys(("mark", "namelist", "mark_rows", "namelist_rows", "in_namelist"), _LOOKUP),
    **dict.fromkeys(("in_expression_resouce", "not_in_expression_resouce", "in_resouce"), _LOOKUP),
    **dict.fromkeys(("groovy", "py", "python", "udfname"), _CODE),
    "executebycondition": "write if(…){…};",
    **dict.fromkeys(("for_time", "timeinterval"), "make the times with sequence() in a step set, and unnest them"),
    "distinct": "use the step dedupe with these keys",
    "env": "write ${NAME} in the pipeline file, or set the property in the script: mock('name','value')",
    **dict.fromkeys(("route", "filter"), "use streams with a step filter"),
    **dict.fromkeys(("remove_max", "rm_max"), "max(rows,key) gives the last value and takes its rows out"),
}
"""Functions that do not exist here, in lower case → what to use."""


def library_name(name: str, count: int) -> str | None:
    """The function of the table that a name and a number of arguments mean."""
    name = name.lower()
    if name == "str2json" and count == 3:
        name = "strtomap"
    name = ALIASES.get(name, name)
    return f"rsql_{name}" if f"rsql_{name}" in functions("rsql") else None
