"""JSON Schema's findings in plain words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from etl.api import cut, nearest
from etl.catalogue import Catalogue
from etl.config.document import plain, scalar_value
from etl.config.model import OptionPath
from etl.config.option_habits import CHOICES, as_option, option_habit
from etl.config.option_names import meant_option
from etl.config.pattern_words import pattern_words
from etl.config.report import Report
from etl.config.schema import pipeline_schema

if TYPE_CHECKING:
    import jsonschema_rs

Json = Mapping[str, Any]

_WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}
_KEBAB = re.compile(r"(?<=[a-z])(?=[A-Z])")
_TRAPS = {
    **dict.fromkeys(("yes", "Yes", "on", "On", "y"), "write true: YAML 1.2 reads {!r} as text"),
    **dict.fromkeys(("no", "No", "off", "Off", "n"), "write false: YAML 1.2 reads {!r} as text"),
}
_OF_SIGMA = ("detection", "logsource", "correlation")
"""Keys of Sigma's rules."""
_SIGMA_FILES = "rules of Sigma stand in files of their own: files: [rules/*.yml]"
_LONGEST_SHOWN = 80


@dataclass(frozen=True)
class Fault:
    """One finding of the schema. ``soft`` ones may be said better by the option's own type."""

    path: OptionPath
    code: str
    message: str
    hint: str | None = None
    key: bool = False
    soft: bool = False
    option: str = ""
    """The option that is missing."""
    schema: Json | None = field(default=None, compare=False)
    """Of the mapping that lacks it."""
    meant: str | None = None
    """The option that an unknown one most likely means."""
    silent: bool = False
    """Whether it follows from another, which says it."""
    habit: bool = False
    """Whether the hint says what to write instead of the option, and of what is missing beside it."""
    lifts: bool = False
    """Whether an unknown option holds nothing but options, which belong beside it."""


@dataclass(frozen=True)
class Context:
    """What a message needs to know beside the finding (whose kinds have attributes that no type tells)."""

    root: Any
    schema: Mapping[str, Any]
    report: Report


@lru_cache(maxsize=8)
def validator(catalogue: Catalogue) -> tuple[jsonschema_rs.Draft202012Validator, Mapping[str, Any]]:
    """The compiled schema of a catalogue, and the schema."""
    import jsonschema_rs

    schema = pipeline_schema(catalogue)
    return jsonschema_rs.Draft202012Validator(schema), schema


def coerce(root: Any, catalogue: Catalogue, report: Report) -> Any:
    """Values that came from outside the file are text: where the schema wants a number or a truth value, read one."""
    compiled, _ = validator(catalogue)
    for error in compiled.iter_errors(root) if report.substituted else ():
        path = tuple(error.instance_path)
        if path in report.substituted and error.kind.name in ("type", "anyOf", "pattern", "enum", "const"):
            value = _at(root, path)
            root = _replaced(root, path, scalar_value(value)) if isinstance(value, str) else root
    return root


def faults(root: Any, catalogue: Catalogue, report: Report) -> list[Fault]:
    """Everything the schema has against the document, except what `etl.config.layout` says better."""
    return faults_by(*validator(catalogue), root, report)


def faults_by(compiled: jsonschema_rs.Draft202012Validator, schema: Mapping[str, Any], root: Any, report: Report) -> list[Fault]:
    """The same by a schema compiled before."""
    context = Context(root, schema, report)
    found = [fault for error in compiled.iter_errors(root) for fault in _explain(error, context)]
    owners = {path[:-1] for path in report.document.blanked}  # what is missing may be what is no YAML, by another name
    found = [replace(one, silent=True) if one.code == "missing-option" and one.path in owners else one for one in found]
    return list(_without_consequences([fault for fault in found if not report.is_broken(fault.path)]))


def _without_consequences(faults: Sequence[Fault]) -> Iterator[Fault]:
    """Where a rule of Sigma stands among rules of ours, that it does is all that there is to say."""
    typed = {fault.path for fault in faults if fault.code == "type"}
    faults = [fault for fault in faults if fault.code != "enum" or fault.path not in typed]
    sigma: dict[OptionPath, Fault] = {}
    for fault in sorted(faults, key=lambda one: one.path[-1:] != ("detection",)):
        if fault.hint == _SIGMA_FILES:
            sigma.setdefault(fault.path[:-1], fault)
    habits: dict[tuple[OptionPath, str | None], Fault] = {}
    for fault in faults:
        if fault.habit:
            habits.setdefault((fault.path[:-1], fault.hint), fault)
    told = {path for path, _ in habits}
    for fault in faults:
        if (fault.code == "missing-option" and fault.path in told) or (
            fault.habit and habits[fault.path[:-1], fault.hint] is not fault
        ):
            yield replace(fault, silent=True)
            continue
        owners = (sigma.get(fault.path[:length]) for length in range(len(fault.path) + 1))
        yield replace(fault, silent=True) if any(owner not in (None, fault) for owner in owners) else fault


def _explain(error: Any, context: Context) -> Iterator[Fault]:
    if error.kind.name == "oneOf" and not error.instance_path:
        return
    explain = _EXPLAINED.get(error.kind.name, _other)
    yield from explain(error, context)


def _shown(error: Any, context: Context) -> str:
    """The value, as the file writes it, unless it is a secret."""
    path = tuple(error.instance_path)
    if _secret(_parent(error, context.schema)):
        return "the value"
    value = context.report.substituted.get(path, _at(context.root, path))
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return cut(text, _LONGEST_SHOWN)


def _parent(error: Any, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = _at(schema, tuple(error.schema_path)[:-1])
    return found if isinstance(found, dict) else {}


def _secret(schema: Mapping[str, Any]) -> bool:
    return bool(schema.get("writeOnly")) or any(_secret(part) for part in schema.get("anyOf", ()))


def _unknown(error: Any, context: Context) -> Iterator[Fault]:
    path = tuple(error.instance_path)
    parent = _parent(error, context.schema)
    if "patternProperties" in parent:
        pattern = next(iter(parent["patternProperties"]))
        for name in error.kind.unexpected:
            message = f"the key {name!r} {pattern_words(name, parent, pattern)}"
            dotted = re.sub(r"[\[\].]+", ".", name).strip(".")
            hint = f"write {dotted}" if dotted != name and re.search(pattern, dotted) else None
            yield Fault((*path, name), "property-names", message, hint, key=True)
        return
    given, options = plain(_at(context.root, path)), parent.get("properties", {})
    for name in error.kind.unexpected:
        inner = given.get(name)
        if isinstance(inner, dict) and inner and inner.keys() <= options.keys() - given.keys():
            hint = f"write {', '.join(inner)} beside the other options, without {name!r}"
            yield Fault((*path, name), "unknown-option", f"has no option {name!r}", hint, key=True, lifts=True)
        else:
            yield _unknown_option(name, path, given, options)


def _unknown_option(name: str, path: OptionPath, given: Mapping[str, Any], options: Mapping[str, Json]) -> Fault:
    if (option := glued_option(name)) in options:
        secret = _secret(options[option])
        hint = f"behind {option} belong a colon and a blank: {option}: …"
        found = repr(option if secret else name)
        meant = None if secret or option in given else option
        return Fault((*path, name), "unknown-option", f"has no option {found}", hint, key=True, meant=meant)
    if habit := option_habit(name, given.get(name), options):
        return Fault((*path, name), "unknown-option", f"has no option {name!r}", habit, key=True, habit=True)
    meant = meant_option(name, options)
    if meant in given or (_holds_more(given.get(name)) and options.get(meant or "", {}).get("type") == "string"):
        meant = None  # it would be wrong
    hint = f"did you mean {meant!r}?" if meant else f"options here are: {', '.join(options)}"
    if name in _OF_SIGMA and "where" in options:
        meant, hint = None, _SIGMA_FILES
    fits = meant is not None and meant not in given
    return Fault((*path, name), "unknown-option", f"has no option {name!r}", hint, key=True, meant=meant if fits else None)


def _holds_more(value: object) -> bool:
    """Whether a value is a mapping of more than one text."""
    return isinstance(value, dict) and not (len(value) == 1 and all(isinstance(one, str) for one in value.values()))


def glued_option(name: str) -> str:
    """What may be the option where ``path: a.log`` lost its colon, or the blank behind it, and became one key."""
    return re.split("[: ]", name, maxsplit=1)[0]


def _misplaced(error: Any, context: Context) -> Iterator[Fault]:
    path = tuple(error.instance_path)
    if path[-1:] == ("from",):
        yield Fault(path, "unknown-option", "has no option 'from'", "here is only one thing it could read", key=True)


def _required(error: Any, context: Context) -> Iterator[Fault]:
    path, name = tuple(error.instance_path), error.kind.property
    if name == "type" and (*path, "type") in context.report.broken:
        return
    schema = _parent(error, context.schema)
    option = schema.get("properties", {}).get(name, {})
    if name == "from":
        option = {"description": "The source or stream to deliver."}
    yield Fault(path, "missing-option", f"needs {name!r}", option.get("description"), option=name, schema=schema)


def _type(error: Any, context: Context) -> Iterator[Fault]:
    wanted = error.kind.types if hasattr(error.kind, "types") else error.kind.value
    wanted = [wanted] if isinstance(wanted, str) else list(wanted)
    yield _wrong_type(error, wanted, context)


def _wrong_type(error: Any, wanted: list[str], context: Context) -> Fault:
    path = tuple(error.instance_path)
    value = _at(context.root, path)
    words = " or ".join(dict.fromkeys(_WORDS[name] for name in wanted if name != "null" or len(wanted) == 1))
    found = {dict: "a mapping", list: "a list", type(None): "nothing"}.get(type(value))
    hint = _TRAPS[value].format(value) if "boolean" in wanted and isinstance(value, str) and value in _TRAPS else None
    if isinstance(value, str) and type(scalar_value(value)) in (int, float) and {"integer", "number"} & set(wanted):
        hint = f"write it without quotes: {value}" if path not in context.report.substituted else None
    if isinstance(value, dict) and len(value) == 1 and wanted == ["string"]:
        ((inner, text),) = value.items()
        hint = f"write {text}" if inner in ("codec", "type", "name") and isinstance(text, str) else None
    if isinstance(value, dict) and wanted == ["string"] and "fields" in path[-2:-1]:
        hint = f"members have dots in their names: {path[-1]}.{next(iter(value), 'name')}: …"
    if isinstance(value, list) and wanted == ["string"] and "fields" in path[-2:-1]:
        hint = f"write array<{value[0]}>" if len(value) == 1 and isinstance(value[0], str) else None
    elif isinstance(value, list) and wanted == ["string"]:
        hint = "one text is taken here, not several"
    if isinstance(value, list) and wanted == ["object"]:
        hint = "write keys and values: {NAME: …}, or each in a line of its own without '-'"
    if isinstance(value, str) and "boolean" in wanted and isinstance(scalar_value(value), bool):
        hint = f"write it without quotes: {value}" if path not in context.report.substituted else None
    if isinstance(value, bool | int | float) and wanted == ["string"] and "pattern" not in _parent(error, context.schema):
        shown = "" if _secret(_parent(error, context.schema)) else f": '{str(value).lower()}'"
        hint = f"put it in quotes{shown}"
    inside = _parent(error, context.schema)
    if wanted == ["object"] and isinstance(value, str | int | float) and not hint and not _secret(inside):
        hint = as_option(value, path, inside)
    if isinstance(value, dict) and wanted == ["array"]:
        hint = "put '- ' in front of its first key, or [ ] around it: a list of one"
    return Fault(path, "type", f"{found or _shown(error, context)} is not {words}", hint, soft=True)


def _choice(error: Any, context: Context) -> Iterator[Fault]:
    path = tuple(error.instance_path)
    value = _at(context.root, path)
    options = list(getattr(error.kind, "options", None) or _parent(error, context.schema).get("enum", ()))
    if not options:
        options = [getattr(error.kind, "expected_value", None)]
    names = [str(option) for option in options]
    same = [name for name in names if isinstance(value, str) and name.lower() == value.lower()]
    hint = f"did you mean {same[0]!r}?" if same else nearest(value, names) if isinstance(value, str) else None
    meant = [name for name in names if isinstance(value, str) and value.lower() in CHOICES.get(name, ())]
    hint = f"did you mean {meant[0]!r}?" if meant else hint
    if value in ("json", "avro", "csv") and "text" in names:
        hint = f"take text, and put a step {value} behind it" if value != "avro" else "Avro is not read"
    yield Fault(path, "enum", f"{_shown(error, context)} is not one of: {', '.join(names)}", hint)


def _bound(words: str) -> Callable[[Any, Context], Iterator[Fault]]:
    def explain(error: Any, context: Context) -> Iterator[Fault]:
        limit = _parent(error, context.schema).get(error.kind.name)
        message = f"{_shown(error, context)} {words.format(limit)}"
        yield Fault(tuple(error.instance_path), _code(error.kind.name), message)

    return explain


def _size(words: str) -> Callable[[Any, Context], Iterator[Fault]]:
    def explain(error: Any, context: Context) -> Iterator[Fault]:
        limit = _parent(error, context.schema).get(error.kind.name)
        yield Fault(tuple(error.instance_path), _code(error.kind.name), words.format(limit, "" if limit == 1 else "s"))

    return explain


def _pattern(error: Any, context: Context) -> Iterator[Fault]:
    schema, path = _parent(error, context.schema), tuple(error.instance_path)
    words = pattern_words(str(_at(context.root, path)), schema, str(schema.get("pattern")))
    if _secret(schema) or path in context.report.substituted:
        words = pattern_words("", schema, str(schema.get("pattern")))
    several = re.split(r"[,;]\s*", value) if isinstance(value := _at(context.root, path), str) and not _secret(schema) else []
    listed = len(several) > 1 and all(part and re.search(str(schema.get("pattern")), part) for part in several)
    hint = f"several are a list: [{', '.join(several)}]" if listed else None
    if "*" in str(value) and "(\\.\\*)?$" in str(schema.get("pattern")):
        hint = "a prefix stands for all fields below it: source, or source.*; other patterns are not known"
    yield Fault(path, "pattern", f"{_shown(error, context)} {words}", hint, soft=True)


def _any_of(error: Any, context: Context) -> Iterator[Fault]:
    """The branch whose type fits says what is wrong; where none fits, all types are named."""
    here = len(error.instance_path)
    for branch in error.kind.context:
        if not any(e.kind.name in ("type", "const") and len(e.instance_path) == here for e in branch):
            for inner in branch:
                yield from _explain(inner, context)
            return
    wanted = [str(branch.get("type")) for branch in _branches(error, context)]
    if wanted and all(name in _WORDS for name in wanted):
        yield _wrong_type(error, wanted, context)
    else:
        yield Fault(tuple(error.instance_path), "any-of", f"{_shown(error, context)} is none of what is accepted", soft=True)


def _branches(error: Any, context: Context) -> Iterator[Mapping[str, Any]]:
    for branch in _parent(error, context.schema).get("anyOf", ()):
        yield context.schema["$defs"][branch["$ref"].rpartition("/")[2]] if "$ref" in branch else branch


def _other(error: Any, context: Context) -> Iterator[Fault]:
    message = "is not accepted" if _secret(_parent(error, context.schema)) else error.message
    yield Fault(tuple(error.instance_path), _code(error.kind.name), message, soft=True)


def _code(name: str) -> str:
    return _KEBAB.sub("-", name).lower()


def _at(root: Any, path: OptionPath) -> Any:
    for part in path:
        try:
            root = root[part]
        except (KeyError, IndexError, TypeError):
            return None
    return root


def _replaced(root: Any, path: OptionPath, value: Any) -> Any:
    if not path:
        return value
    if isinstance(root, dict):
        return {**root, path[0]: _replaced(root[path[0]], path[1:], value)}
    return [_replaced(item, path[1:], value) if index == path[0] else item for index, item in enumerate(root)]


_EXPLAINED: Mapping[str, Callable[[Any, Context], Iterator[Fault]]] = {
    "additionalProperties": _unknown,
    "falseSchema": _misplaced,
    "required": _required,
    "type": _type,
    "enum": _choice,
    "const": _choice,
    "minimum": _bound("is less than the minimum of {}"),
    "maximum": _bound("is more than the maximum of {}"),
    "exclusiveMinimum": _bound("is not more than {}"),
    "exclusiveMaximum": _bound("is not less than {}"),
    "multipleOf": _bound("is not a multiple of {}"),
    "minLength": _size("needs at least {} character{}"),
    "maxLength": _size("has more than {} character{}"),
    "minItems": _size("needs at least {} item{}"),
    "maxItems": _size("has more than {} item{}"),
    "minProperties": _size("needs at least {} key{}"),
    "maxProperties": _size("has more than {} key{}"),
    "pattern": _pattern,
    "anyOf": _any_of,
}
