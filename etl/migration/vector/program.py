"""Programs in VRL → steps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from etl.migration.captures import rename_in_pattern
from etl.migration.comparisons import equal, matching, ordered, truth
from etl.migration.draft import NoCounterpartError, clean_name
from etl.migration.translated import TranslatedSteps
from etl.migration.values import (
    FALSE,
    NULL,
    NUMBER,
    TEXT,
    TEXTS,
    TRUE,
    Value,
    array_of,
    as_type,
    both,
    call,
    choose,
    common_type,
    constant,
    either,
    is_null,
    negation,
    reads_of,
    split_text,
    text_value,
)
from etl.migration.vector import vrl
from etl.migration.vector.functions import FUNCTIONS

_PARSERS = (
    *("parse_json", "parse_regex", "parse_grok", "parse_key_value", "parse_logfmt", "parse_syslog", "parse_url"),
    *("parse_apache_log", "parse_common_log"),
)
_COMMON_LOG = (
    r"^(?:-|%{NOTSPACE:host}) (?:-|%{NOTSPACE:identity}) (?:-|%{NOTSPACE:user}) \[%{HTTPDATE:timestamp}\] "
    r'"(?:-|(?<message>(?:%{WORD:method} %{NOTSPACE:path}(?: %{NOTSPACE:protocol})?|[^"]*)))" (?:-|%{INT:status:int}) '
    r"(?:-|%{INT:size:int})"
)
_LOG_FORMATS = {"common": f"{_COMMON_LOG}$", "combined": f'{_COMMON_LOG} "(?:-|(?<referrer>[^"]*))" "(?:-|(?<agent>[^"]*))"$'}
"""Lines of web servers, with the names of fields that VRL gives them."""

_NAMES = {"parse_syslog": "syslog", "parse_url": "uri_parts"}


@dataclass
class Program:
    """Executes statements on a draft, with expressions in place of values."""

    steps: TranslatedSteps
    drops_errors: bool = False
    drops_aborted: bool = True
    values: dict[str, Value] = field(default_factory=dict)
    """Variables."""
    objects: dict[str, str] = field(default_factory=dict)
    """Variables that hold objects: the prefix of their fields."""
    captured: frozenset[str] = frozenset()
    """Fields that the pattern of the last parser gives."""
    going: Value | None = None
    """Where the program has not ended with an error; None is everywhere."""

    def run(self, statements: Sequence[vrl.Node], where: Value | None) -> None:
        for one in statements:
            self._execute(one, both(where, self.going))

    def _execute(self, one: vrl.Node, where: Value | None) -> None:
        draft = self.steps.draft
        match one:
            case vrl.Assignment():
                self._assign(one, where)
            case vrl.If(cases, other):
                before: Value | None = where
                blocks: list[tuple[Value | None, Sequence[vrl.Node]]] = []
                for condition, block in cases:
                    found = self.condition(condition)
                    if both(before, found) != FALSE:
                        blocks.append((draft.keep(both(before, found)), block))
                    before = both(before, negation(found))
                if before != FALSE:
                    blocks.append((draft.keep(before), other))
                for branch, inside in blocks:
                    self.run(inside, branch)
            case vrl.Call("del", ((_, vrl.Path("", parts)), *_)):
                name = _name(parts)
                draft.field(name)
                draft.drop([name, *draft.under(name)], draft.keep(where))
            case vrl.Abort():
                if self.drops_aborted:
                    self.steps.apply("drop", {}, where)
                else:
                    self.going = both(self.going, FALSE if where is None else negation(where))
            case vrl.Call("log", _) | vrl.Path() | vrl.Literal() | vrl.ObjectOf():
                pass  # a value that nothing takes
            case _:
                raise NoCounterpartError("an expression in VRL whose value is not used")

    def _assign(self, one: vrl.Assignment, where: Value | None) -> None:
        value = one.value
        fallback = False
        if isinstance(value, vrl.Operation) and value.operator == "??" and _is_parser(value.operands[0]):
            value, fallback = value.operands[0], True
        if isinstance(value, vrl.Call) and value.name in _PARSERS:
            self._parse(one, value, where, fallback)
            return
        if isinstance(value, vrl.Call) and value.name == "merge" and one.target == vrl.Path("", ()) and value.arguments:
            self._merge(value.arguments[-1][1], where)
            return
        if one.operator == "|=" or one.target == vrl.Path("", ()):
            self._merge(value, where) if one.operator == "|=" else self._replace(value, where)
            return
        if isinstance(value, vrl.ObjectOf):
            for member, inside in value.members:
                self._put(vrl.Path(one.target.variable, (*one.target.parts, member)), self.value(inside), where)
            return
        if isinstance(value, vrl.Path) and (names := self._members(value)) and not self._field(value):
            for name, field_ in names.items():
                self._put(vrl.Path(one.target.variable, (*one.target.parts, *name.split("."))), field_, where)
            return
        found = self.value(value)
        if one.operator == "??=":
            found = _coalesced(self.value(one.target), found)
        self._put(one.target, found, where)
        if one.error is not None:
            self._put(one.error, NULL, where)
        if isinstance(value, vrl.Call) and value.name == "del":
            self._execute(value, where)
        elif isinstance(value, vrl.Operation):
            for operand in value.operands:
                if isinstance(operand, vrl.Call) and operand.name == "del":
                    self._execute(operand, where)

    def _replace(self, value: vrl.Node, where: Value | None) -> None:
        draft = self.steps.draft
        if isinstance(value, vrl.Call) and value.name == "compact" and _first_argument(value) == vrl.Path("", ()):
            return  # a field without a value is missing here anyway
        if not isinstance(value, vrl.ObjectOf | vrl.Path):
            raise NoCounterpartError(". = … of something that is not an object in VRL")
        members = dict(self._object(value))
        new_members = {**members}
        draft.set({name: choose(where, member, draft.field(name)) for name, member in new_members.items()})
        gone = [
            name for name in draft.types if name not in new_members and name not in draft.temporary and not self._is_own(name)
        ]
        draft.drop(gone, draft.keep(where))

    def _is_own(self, name: str) -> bool:
        return any(name.startswith(prefix) for prefix in self.objects.values())

    def _merge(self, value: vrl.Node, where: Value | None) -> None:
        for name, member in self._object(value).items():
            self._put(vrl.Path("", tuple(name.split("."))), member, where)

    def _object(self, value: vrl.Node) -> Mapping[str, Value]:
        if isinstance(value, vrl.ObjectOf):
            return {clean_name(name): self.value(member) for name, member in value.members}
        if isinstance(value, vrl.Path):
            return self._members(value)
        raise NoCounterpartError("an object in VRL that is not known before the run")

    def _members(self, path: vrl.Path) -> Mapping[str, Value]:
        name = self._path_name(path)
        draft = self.steps.draft
        if name is None:
            return {}
        names = draft.under(name) if name else [one for one in draft.types if one not in draft.temporary]
        return {one[len(name) + 1 :] if name else one: draft.field(one) for one in names}

    def _path_name(self, path: vrl.Path) -> str | None:
        if not path.variable:
            return _name(path.parts)
        prefix = self.objects.get(path.variable)
        return None if prefix is None else _name((prefix.rstrip("."), *path.parts))

    def _field(self, path: vrl.Path) -> bool:
        return self._path_name(path) in self.steps.draft.types

    def _put(self, target: vrl.Path, value: Value, where: Value | None) -> None:
        draft = self.steps.draft
        if target.variable and target.variable not in self.objects:
            if target.parts:
                raise NoCounterpartError("a member of a variable that is set in VRL")
            self.values[target.variable] = choose(where, value, self.values.get(target.variable, NULL))
            return
        name = self._path_name(target) or ""
        draft.set({name: choose(where, value, draft.field(name))})

    def _parse(self, one: vrl.Assignment, parser: vrl.Call, where: Value | None, fallback: bool) -> None:
        """A call of a parser whose fields go to the event, to an object in it, or to a variable."""
        draft = self.steps.draft
        arguments = _arguments(parser, ("value", "pattern"))
        source = self._source(arguments["value"])
        target = one.target
        if target.variable and not target.parts:
            self.objects.setdefault(target.variable, f"_{target.variable}")
        prefix = self._path_name(target) or ""
        before = [name for name in draft.types if name not in draft.temporary and not self._is_own(name)]
        self.captured = frozenset()
        succeeded = self._run_parser(parser, arguments, source, prefix, where)
        failed = FALSE if succeeded is None else both(where, negation(succeeded)) or TRUE
        if target.variable:
            draft.temporary += [name for name in draft.under(prefix) if name not in draft.temporary]
        if one.error is not None:
            self.values[one.error.variable] = choose(failed, text_value("it does not fit"), NULL)
        elif parser.aborts and not fallback:
            if self.drops_errors:
                self.steps.apply("drop", {}, failed)
            elif failed != FALSE:
                failure = draft.keep(failed)
                self.going = both(self.going, FALSE if failure is None else negation(failure))
        if not prefix and one.operator == "=":
            gone = [name for name in before if name in draft.types and name not in self.captured]
            draft.drop(gone, draft.keep(succeeded))

    def _source(self, node: vrl.Node) -> str:
        """The field that a parser reads."""
        while isinstance(node, vrl.Call) and node.name in ("string", "to_string") and node.arguments:
            node = node.arguments[0][1]
        draft = self.steps.draft
        if isinstance(node, vrl.Path) and (name := self._path_name(node)):
            draft.field(name)
            return name
        value = as_type(self.value(node), TEXT)
        name = draft.new_temporary("value")
        draft.set({name: value})
        return name

    def _run_parser(
        self, parser: vrl.Call, arguments: Mapping[str, vrl.Node], source: str, prefix: str, where: Value | None
    ) -> Value | None:
        stem = f"{prefix}." if prefix else ""
        match parser.name:
            case "parse_json":
                moved = source
                if not prefix:
                    moved = self.steps.draft.new_temporary("json")
                    self.steps.draft.set({moved: self.steps.draft.field(source)})
                target = {"target_field": prefix} if prefix else {"add_to_root": True}
                return self.steps.attempt("json", {"field": moved, **target}, where)
            case "parse_regex" | "parse_grok":
                pattern = arguments.get("pattern")
                if not isinstance(pattern, vrl.Regex | vrl.Literal):
                    raise NoCounterpartError(f"{parser.name} with a pattern that is not a constant")
                text = pattern.text if isinstance(pattern, vrl.Regex) else str(pattern.value)
                names = re.findall(r"\(\?P?<([A-Za-z_]\w*)>|%\{\w+:([^:{}]+)", text)
                renamed = {one or other: f"{stem}{clean_name(one or other)}" for one, other in names}
                text = rename_in_pattern(text.replace("(?P<", "(?<"), renamed)
                self.captured = frozenset(renamed.values())
                options = {"field": source, "patterns": [text], "ecs_compatibility": "v1", "keep_empty_captures": True}
                return self.steps.attempt("grok", options, where)
            case "parse_apache_log" | "parse_common_log":
                return self._parse_web_log(parser.name, arguments, source, stem, where)
            case "parse_key_value" | "parse_logfmt":
                from etl.migration.ingest.parser_processors import add_pairs
                from etl.migration.ingest.processor import Processor

                given = {name: str(node.value) for name, node in arguments.items() if isinstance(node, vrl.Literal)}
                options = {
                    "fields": {},
                    "pair_separators": [given.get("field_delimiter", " ")],
                    "value_separators": [given.get("key_value_delimiter", "=")],
                }
                kv = {"field": source, "value_split": "=", "ignore_failure": True}
                add_pairs(Processor("kv", kv, self.steps.draft, where, lambda *_: None), stem, options)
                return where
            case "parse_url":
                return self.steps.attempt("uri_parts", {"field": source, "target_field": prefix or "url"}, where)
        raise NoCounterpartError(f"{parser.name}; the parser `{_NAMES[parser.name]}` reads it, under other names")

    def _parse_web_log(
        self, name: str, arguments: Mapping[str, vrl.Node], source: str, stem: str, where: Value | None
    ) -> Value | None:
        """A line of a web server; the condition of success."""
        form = arguments.get("pattern") or arguments.get("format") or vrl.Literal("common")
        text = _LOG_FORMATS.get(str(form.value)) if isinstance(form, vrl.Literal) else None
        if text is None:
            raise NoCounterpartError(f"{name} of another format than {', '.join(_LOG_FORMATS)}")
        captures = re.findall(r"%\{\w+:(\w+)|\(\?<(\w+)>", text)
        renamed = {one or other: f"{stem}{one or other}" for one, other in captures}
        self.captured = frozenset(renamed.values())
        options = {"field": source, "patterns": [rename_in_pattern(text, renamed)], "ecs_compatibility": "v1"}
        succeeded = self.steps.attempt("grok", {**options, "keep_empty_captures": True}, where)
        time = {"field": f"{stem}timestamp", "target_field": f"{stem}timestamp", "formats": ["dd/MMM/yyyy:HH:mm:ss Z"]}
        self.steps.apply("date", {**time, "ignore_failure": True}, succeeded)
        return succeeded

    def condition(self, node: vrl.Node) -> Value:
        return truth(self.value(node))

    def value(self, node: vrl.Node) -> Value:
        match node:
            case vrl.Literal(value):
                return constant(value)
            case vrl.Path():
                return self._path(node)
            case vrl.ArrayOf(items):
                return array_of([self.value(item) for item in items]) if items else Value("array()", TEXTS)
            case vrl.Operation(operator, operands):
                return self._operation(operator, operands)
            case vrl.If(cases, other) if all(len(block) == 1 for _, block in cases) and len(other) < 2:
                found = self.value(other[0]) if other else NULL
                for condition, block in reversed(cases):
                    found = choose(self.condition(condition), self.value(block[0]), found)
                return found
            case vrl.Call():
                return self._call(node)
        raise NoCounterpartError(f"{type(node).__name__} as a value in VRL")

    def _path(self, path: vrl.Path) -> Value:
        draft = self.steps.draft
        if path.variable in self.values and not path.parts:
            return self.values[path.variable]
        if path.variable and path.variable not in self.objects:
            raise NoCounterpartError(f"the variable {path.variable} in VRL")
        parts = path.parts
        if parts and parts[-1].startswith("["):
            items = draft.field(self._path_name(vrl.Path(path.variable, parts[:-1])) or "")
            at = parts[-1][1:-1]
            return Value(f"get({items.sql}, {at})", items.type[6:-1], items.reads) if items.is_array else NULL
        return draft.field(self._path_name(path) or "")

    def _operation(self, operator: str, operands: Sequence[vrl.Node]) -> Value:
        if operator == "!x":
            return negation(self.condition(operands[0]))
        if operator == "-x":
            value = self.value(operands[0])
            return Value(f"-({value.sql})", value.type, value.reads)
        if operator in ("&&", "||"):
            one, other = map(self.condition, operands)
            return both(one, other) or TRUE if operator == "&&" else either(one, other)
        if operator == "??" and isinstance(operands[0], vrl.Call) and operands[0].name in _OF_THE_HOST:
            return _of_the_host(operands[0], operands[1])
        one, other = map(self.value, operands)
        match operator:
            case "??":
                return _coalesced(one, other)
            case "==":
                return equal(one, other)
            case "!=":
                return negation(equal(one, other))
            case "<" | "<=" | ">" | ">=":
                return ordered(operator, one, other)
        if operator == "+" and TEXT in (one.type, other.type):
            return call("concat", [as_type(one, TEXT), as_type(other, TEXT)], TEXT)
        if one.is_null or other.is_null:
            return NULL
        one, other = (x if x.is_number else as_type(x, NUMBER) for x in (one, other))
        type_ = NUMBER if operator == "/" else common_type(one.type, other.type)
        return Value(f"({one.sql}) {operator} ({other.sql})", type_, reads_of([one, other]))

    def _call(self, node: vrl.Call) -> Value:
        given = [argument for _, argument in node.arguments]
        names = [name for name, _ in node.arguments]
        if "value" in names[1:]:
            raise NoCounterpartError(f"{node.name}() of VRL with value: after other arguments")
        if node.name == "exists" and given and isinstance(given[0], vrl.Path):
            members = self._members(given[0]) if given[0].parts else {}
            found = negation(is_null(self._path(given[0])))
            for member in members.values():
                found = either(found, negation(is_null(member)))
            return found
        if node.name in ("del", "get") and given:
            return self.value(given[0])
        if node.name in ("match", "replace") and len(given) > 1 and isinstance(given[1], vrl.Regex):
            value = self.value(given[0])
            if node.name == "match":
                return matching(value, given[1].text)
            if len(given) != 3:
                raise NoCounterpartError(f"replace() of VRL with {len(given)} arguments")
            text = self.value(given[2])
            return call("regexp_replace", [as_type(value, TEXT), text_value(given[1].text), text], TEXT)
        if node.name == "split" and len(given) == 2 and isinstance(given[1], vrl.Regex):
            return split_text(as_type(self.value(given[0]), TEXT), given[1].text)
        if node.name in _OF_THE_HOST:
            return _of_the_host(node, None)
        made = FUNCTIONS.get(node.name)
        if made is None:
            raise NoCounterpartError(f"the function {node.name}() of VRL")
        values = [self.value(one) for one in given]
        if values and values[0].is_null and node.name not in ("is_null", "is_nullish", "push", "append"):
            return NULL
        try:
            return made(*values)
        except TypeError:
            raise NoCounterpartError(f"{node.name}() of VRL with {len(values)} arguments") from None


_OF_THE_HOST = ("get_env_var", "get_hostname")
"""Functions whose value is the same for all events: a variable of the environment."""


def _of_the_host(node: vrl.Call, default: vrl.Node | None) -> Value:
    """A variable of the environment, with a default."""
    name = "HOSTNAME" if node.name == "get_hostname" else getattr(_first_argument(node), "value", None)
    text = getattr(default, "value", "localhost" if node.name == "get_hostname" else None)
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise NoCounterpartError(f"{node.name}() of VRL with a name that is not a constant")
    if default is not None and (not isinstance(text, str) or re.search(r"[{}$]", text)):
        raise NoCounterpartError(f"{node.name}() of VRL with a default that is not a constant text")
    return text_value(f"${{{name}}}" if text is None else f"${{{name}:-{text}}}")


def _first_argument(node: vrl.Call) -> vrl.Node | None:
    return node.arguments[0][1] if node.arguments else None


def _is_parser(node: vrl.Node) -> bool:
    return isinstance(node, vrl.Call) and node.name in _PARSERS


def _coalesced(one: Value, other: Value) -> Value:
    if one.is_null or other.is_null:
        return other if one.is_null else one
    type_ = common_type(one.type, other.type)
    return call("coalesce", [as_type(one, type_), as_type(other, type_)], type_)


def _arguments(node: vrl.Call, names: Sequence[str]) -> dict[str, vrl.Node]:
    """Arguments by their names."""
    found: dict[str, Any] = {}
    positional = iter(names)
    for name, value in node.arguments:
        found[name or next(positional, f"further {len(found)}")] = value
    if "value" not in found:
        raise NoCounterpartError(f"{node.name}() of VRL without a value")
    return found


def _name(parts: Sequence[str]) -> str:
    return clean_name(".".join(parts))
