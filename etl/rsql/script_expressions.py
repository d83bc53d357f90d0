"""Expressions of scripts → Spark SQL over fields and functions of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from etl.api import nearest
from etl.expressions.library.catalogue import functions
from etl.expressions.quoting import quoted_text
from etl.rsql.problems import SourceError
from etl.rsql.script_names import ALIASES, TEMPLATES, UNSUPPORTED, library_name
from etl.rsql.script_parser import parse_expression
from etl.rsql.script_scope import ScriptScope
from etl.rsql.script_tree import BareWord, Constant, Expression, FunctionCall, KeyValuePair

_DEFAULT_PATTERN = "'yyyy-MM-dd HH:mm:ss'"


def spark_text(node: Expression, scope: ScriptScope) -> str:
    """The value of an expression. Raises SourceError."""
    if isinstance(node, Constant):
        return _constant(node)
    if isinstance(node, BareWord):
        return _object(node.name, scope) or scope.text(node.name, node.at)
    if isinstance(node, KeyValuePair):
        raise SourceError("script-syntax", "a pair stands in functions that make JSON only", node.at, "json_create('a':b)")
    return _call(node, scope)


def condition_text(node: Expression, scope: ScriptScope) -> str:
    """An expression as a condition, which is true or false and never null."""
    text = spark_text(node, scope)
    return text if isinstance(node, FunctionCall) and _is_condition(node) else f"rsql_true({text})"


def constant_or_field(node: Expression, scope: ScriptScope) -> str:
    """An argument of which a word that is not a field is a text."""
    if isinstance(node, BareWord) and (not scope.is_known or not scope.has(node.name)):
        return quoted_text(node.name)
    return spark_text(node, scope)


def name_of(node: Expression) -> str:
    """An argument that names a field, with or without quotes. Raises SourceError."""
    if isinstance(node, BareWord):
        return node.name
    if isinstance(node, Constant) and isinstance(node.value, str) and node.value:
        return node.value
    raise SourceError("script-syntax", "the name of a field is expected", node.at)


def _constant(node: Constant) -> str:
    if isinstance(node.value, str):
        return quoted_text(node.value)
    return "null" if node.value is None else str(node.value).lower()


def _is_condition(node: FunctionCall) -> bool:
    name = library_name(node.name, len(node.arguments))
    return name is not None and functions("rsql")[name].result == "boolean"


def _object(name: str, scope: ScriptScope) -> str | None:
    """The JSON of an object whose members are fields; None for anything else."""
    members = scope.members(name) if scope.is_known and not scope.has(name) else ()
    if not members:
        return None
    pairs = (f"{quoted_text(one[len(name) + 1 :])}, {scope.text(one, 0)}" for one in members)
    return f"rsql_json_nested({', '.join(pairs)})"


# ── Calls ─────────────────────────────────────────────────────────────────────────────────────────


def _call(node: FunctionCall, scope: ScriptScope) -> str:
    name, count = node.name.lower(), len(node.arguments)
    special = _SPECIAL.get(name)
    if special is not None and (found := special(node, scope)) is not None:
        return found
    if name in UNSUPPORTED:
        raise SourceError("unknown-function", f"{node.name} does not exist here", node.at, UNSUPPORTED[name])
    if name in TEMPLATES:
        return _template(node, scope)
    library = library_name(name, count)
    if library is None:
        raise _unknown(node)
    function = functions("rsql")[library]
    if count < function.min_arguments or (function.max_arguments is not None and count > function.max_arguments):
        counts = _argument_words(function.min_arguments, function.max_arguments)
        hint = f"its arguments: {function.call.removeprefix('rsql_')}"
        raise SourceError("wrong-arguments", f"{node.name} takes {counts}, not {count}", node.at, hint)
    return f"{library}({', '.join(spark_text(one, scope) for one in node.arguments)})"


def _template(node: FunctionCall, scope: ScriptScope) -> str:
    min_arguments, max_arguments, template = TEMPLATES[node.name.lower()]
    if not min_arguments <= len(node.arguments) <= max_arguments:
        counts = _argument_words(min_arguments, max_arguments)
        raise SourceError("wrong-arguments", f"{node.name} takes {counts}, not {len(node.arguments)}", node.at)
    given = [spark_text(one, scope) for one in node.arguments]
    return template.format(*given, *[_DEFAULT_PATTERN] * (max_arguments - len(given)))


def _argument_words(min_arguments: int, max_arguments: int | None) -> str:
    """2 arguments, 1 to 3 arguments, or at least 2 arguments."""
    if max_arguments is None:
        return f"at least {min_arguments} argument{'s'[: min_arguments - 1]}"
    return (
        f"{min_arguments} argument{'s'[: min_arguments - 1]}"
        if min_arguments == max_arguments
        else f"{min_arguments} to {max_arguments} arguments"
    )


def _unknown(node: FunctionCall) -> SourceError:
    hint = nearest(node.name.lower(), sorted(_names()))
    return SourceError("unknown-function", f"there is no function {node.name!r}", node.at, hint)


@cache
def _names() -> frozenset[str]:
    own = (name.removeprefix("rsql_") for name in functions("rsql"))
    return frozenset((*own, *ALIASES, *TEMPLATES, *_SPECIAL))


def _in(node: FunctionCall, scope: ScriptScope) -> str | None:
    """``in(field,a,b)``: words that are not fields are texts; with true before them they are regular expressions."""
    if len(node.arguments) < 2:
        return None
    first, *others = node.arguments
    is_regex = isinstance(others[0], Constant) and others[0].value is True
    name = "rsql_inbyregex" if is_regex else "rsql_in"
    values = [constant_or_field(one, scope) for one in (others[1:] if is_regex else others)]
    return f"{name}({spark_text(first, scope)}, {', '.join(values)})"


def _field(node: FunctionCall, scope: ScriptScope) -> str | None:
    """``field('name')``."""
    if len(node.arguments) != 1:
        return None
    name = name_of(node.arguments[0])
    return _object(name, scope) or scope.text(name, node.at)


def _member(node: FunctionCall, scope: ScriptScope) -> str | None:
    """``json_field(object,'name')`` and ``json_value(object,'a.b')`` of an object whose members are fields."""
    if len(node.arguments) != 2 or not isinstance(node.arguments[0], (BareWord, Constant)):
        return None
    first, key = node.arguments
    name = str(first.value) if isinstance(first, Constant) else str(first.name)
    path = str(key.value).removeprefix("$.") if isinstance(key, Constant) else ""
    if scope.is_known and not scope.has(name) and scope.members(name) and scope.has(f"{name}.{path}"):
        return scope.text(f"{name}.{path}", key.at)
    if node.name.lower() in ("json_field", "get_json_field"):
        value = name_of(first)
        return f"rsql_item({scope.text(value, first.at)}, {spark_text(key, scope)})"
    return None


def _quoted_json(node: FunctionCall, scope: ScriptScope) -> str | None:
    """Functions of arrays take the name of a field in quotes, too."""
    name = library_name(node.name, len(node.arguments))
    first = node.arguments[0] if node.arguments else None
    if name is None or not isinstance(first, Constant) or not isinstance(first.value, str) or not first.value.isidentifier():
        return None
    rest = [spark_text(one, scope) for one in node.arguments[1:]]
    return f"{name}({', '.join([scope.text(first.value, first.at), *rest])})"


def _json_create(node: FunctionCall, scope: ScriptScope) -> str:
    pairs = []
    for one in node.arguments:
        if not isinstance(one, KeyValuePair):
            raise SourceError("script-syntax", "a pair 'name':value is expected", one.at)
        pairs.append(f"{quoted_text(name_of(one.name))}, {spark_text(one.value, scope)}")
    return f"rsql_json_create({', '.join(pairs)})"


def _json_of_fields(node: FunctionCall, scope: ScriptScope) -> str:
    """``json_generate_field(a,b)``."""
    values = [spark_text(one, scope) for one in node.arguments]
    names = [quoted_text(name_of(one)) for one in node.arguments]
    return f"rsql_json_create({', '.join(f'{name}, {value}' for name, value in zip(names, values, strict=True))})"


def _echo(node: FunctionCall, scope: ScriptScope) -> str:
    """The JSON of fields, all as texts."""
    parts = [f"{quoted_text(name_of(one))}, rsql_tostring({spark_text(one, scope)})" for one in node.arguments]
    return f"rsql_json_create({', '.join(parts)})"


def _whole_record(node: FunctionCall, scope: ScriptScope) -> str | None:
    """``toJson()``: the JSON of the event."""
    if node.arguments:
        return None
    if not scope.is_known:
        raise SourceError("unknown-field", "the fields of the event are not known here", node.at, "use the step script")
    names = [name for name in scope.names if not name.startswith("_")]
    parts = [f"{quoted_text(name)}, {scope.text(name, node.at)}" for name in names]
    return f"rsql_json_create({', '.join(parts)})"


def _stamp(node: FunctionCall, scope: ScriptScope) -> str | None:
    """The present time, if no date is given."""
    if node.arguments:
        return None
    return "unix_seconds(current_timestamp())" if "second" in node.name.lower() else "unix_millis(current_timestamp())"


def _inner_script(node: FunctionCall, scope: ScriptScope) -> str:
    """``exec_function('lower(a)')``: the text must be a constant."""
    inner = node.arguments[0] if node.arguments else node
    if not isinstance(inner, Constant) or not isinstance(inner.value, str):
        raise SourceError("wrong-arguments", f"{node.name} takes a script in quotes", node.at, "write the function itself")
    try:
        return spark_text(parse_expression(inner.value), scope)
    except SourceError as error:
        raise SourceError(error.code, str(error), inner.at + 1 + error.at, error.hint) from error


def _property(node: FunctionCall, scope: ScriptScope) -> str | None:
    """``env('name')`` of a property that the script has set; None for another."""
    first = node.arguments[0] if len(node.arguments) == 1 else None
    known = isinstance(first, Constant) and str(first.value) in scope.properties
    return quoted_text(scope.properties[str(first.value)]) if known and isinstance(first, Constant) else None


def _window(kind: str) -> Callable[[FunctionCall, ScriptScope], str]:
    def text(node: FunctionCall, scope: ScriptScope) -> str:
        names = (f"window_{kind}", f"WINDOW_{kind.upper()}", f"WINDOW_{kind.upper()}_TIME")
        return scope.text(next((name for name in names if scope.has(name)), names[0]), node.at)

    return text


def _arrays(*names: str) -> Mapping[str, Callable[[FunctionCall, ScriptScope], str | None]]:
    return dict.fromkeys(names, _quoted_json)


_SPECIAL: Mapping[str, Callable[[FunctionCall, ScriptScope], str | None]] = {
    "in": _in,
    "field": _field,
    **dict.fromkeys(("copyfield", "copy"), _field),
    **dict.fromkeys(("json_field", "get_json_field", "json_value", "json_get", "item"), _member),
    "get": lambda node, scope: _field(node, scope) if len(node.arguments) == 1 else _member(node, scope),
    **_arrays("row2column", "rowtocolumn", "in_max", "max_from_array", "in_min", "min_from_array", "array_size", "size_array"),
    **_arrays("insql", "create_insql", "max"),
    **dict.fromkeys(("json_create", "json_generate"), _json_create),
    **dict.fromkeys(("json_generate_field", "json_create_field"), _json_of_fields),
    "echo": _echo,
    **dict.fromkeys(("paser2json", "tojson"), _whole_record),
    **dict.fromkeys(("curstamp", "timestamp", "curstamp_second", "timestamp_second"), _stamp),
    **dict.fromkeys(("exec_function", "eval_function"), _inner_script),
    "env": _property,
    "window_start": _window("start"),
    "window_end": _window("end"),
}
"""Functions whose arguments are not values only; those that give None are called as any other."""
