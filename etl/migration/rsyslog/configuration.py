"""Configurations of rsyslog as statements: RainerScript, and the selectors, property filters and ``$`` directives before it.

Source: rsyslog's documentation, "Configuration", "RainerScript" and "Filter Conditions".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from etl.migration.draft import NoCounterpartError
from etl.migration.rsyslog.expressions import Node, read_expression

MAX_BYTES = 4 << 20
MAX_DEPTH = 50
MAX_FILES = 500


@dataclass(frozen=True)
class Element:
    """Something with parameters: ``input(…)``, ``action(…)``, ``template(…)``."""

    kind: str
    parameters: dict[str, str | list[str]]
    location: str
    body: tuple[Statement, ...] = ()

    def text(self, name: str, default: str = "") -> str:
        """A parameter; of a list the first item."""
        value = self.parameters.get(name, default)
        return (value[0] if value else default) if isinstance(value, list) else value


@dataclass(frozen=True)
class If:
    """``if … then … else …``; a selector or a property filter is one without ``else``."""

    condition: Node
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]
    location: str


@dataclass(frozen=True)
class SetVariable:
    """``set $!name = …;``; without an expression ``unset``."""

    name: str
    value: Node | None
    location: str


@dataclass(frozen=True)
class Command:
    """``stop``, ``call``, or one that is only reported."""

    name: str
    argument: str
    location: str


Statement = Element | If | SetVariable | Command

_SPACE = re.compile(r"(?:\s|#[^\n]*|/\*.*?\*/)*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_][\w.-]*")
_PARAMETER = re.compile(r"([A-Za-z_][\w.-]*)\s*=\s*")
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"|' + r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_PLAIN = re.compile(r"[^\s,()\[\]]+")
_SELECTOR = re.compile(
    r"((?:\*|[A-Za-z0-9]+)(?:,(?:\*|[A-Za-z0-9]+))*\.[=!]{0,2}(?:\*|[A-Za-z0-9]+)[A-Za-z0-9*,;.=!]*)[ \t]+(?=\S)"
)
_PROPERTY_FILTER = re.compile(r':\s*([\w!.$-]+)\s*,\s*(!?)\s*(\w+)\s*(?:,\s*"((?:[^"\\]|\\.)*)")?\s*')
_DIRECTIVE = re.compile(r"\$([A-Za-z]\w*)[ \t]+([^\n]*)|\$([A-Za-z]\w*)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


def unescaped(text: str) -> str:
    """The text between quotes."""
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text, flags=re.DOTALL)


@dataclass
class ConfigurationReader:
    """Reads one file, and the files that it includes. Raises NoCounterpartError with the location of what cannot be read."""

    file: Path
    files: list[Path] = field(default_factory=list)
    text: str = ""
    at: int = 0
    depth: int = 0
    pending: dict[str, str] = field(default_factory=dict)
    """Directives for the next action or input, such as ``$ActionFileDefaultTemplate``."""

    def read(self) -> list[Statement]:
        """All statements of the file."""
        data = self.file.read_bytes()
        if len(data) > MAX_BYTES:
            raise NoCounterpartError(
                f"{self.file}:1:1: {len(data):,} bytes are more than a configuration may have: {MAX_BYTES:,}"
            )
        self.files.append(self.file)
        if len(self.files) > MAX_FILES:
            raise NoCounterpartError(f"{self.file}:1:1: more than {MAX_FILES} files include each other")
        try:
            self.text = re.sub(r"\\\n[ \t]*", " ", data.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            raise NoCounterpartError(f"{self.file}:1:1: byte {error.start} is not UTF-8") from None
        return self._block(end="")

    @property
    def location(self) -> str:
        """The location that is read."""
        line = self.text.count("\n", 0, self.at) + 1
        return f"{self.file}:{line}:{self.at - self.text.rfind(chr(10), 0, self.at)}"

    def _fail(self, message: str) -> NoCounterpartError:
        return NoCounterpartError(f"{self.location}: {message}")

    def _skip(self) -> None:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def _take(self, text: str) -> bool:
        self._skip()
        if self.text.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def _need(self, text: str) -> None:
        if not self._take(text):
            raise self._fail(f"{text!r} is missing here")

    def _block(self, end: str) -> list[Statement]:
        found: list[Statement] = []
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._fail(f"more than {MAX_DEPTH} blocks inside each other")
        while True:
            self._skip()
            if self.at >= len(self.text):
                if end:
                    raise self._fail(f"{end!r} is missing at the end")
                break
            if end and self._take(end):
                break
            found += self._statement(found)
        self.depth -= 1
        return found

    def _statement(self, before: list[Statement]) -> list[Statement]:
        location, text = self.location, self.text
        if text[self.at] == "$" and (directive := _DIRECTIVE.match(text, self.at)):
            self.at = directive.end()
            return self._directive((directive[1] or directive[3]).lower(), (directive[2] or "").strip(), location)
        if selector := _SELECTOR.match(text, self.at):
            self.at = selector.end()
            return [If(("prifilt", selector[1]), tuple(self._actions()), (), location)]
        if text[self.at] == ":" and (filtered := _PROPERTY_FILTER.match(text, self.at)) and "," in filtered[0]:
            self.at = filtered.end()
            node = ("filter", filtered[1], bool(filtered[2]), filtered[3], unescaped(filtered[4] or ""))
            return [If(node, tuple(self._actions()), (), location)]
        if text[self.at] == "{":
            self.at += 1
            return self._block("}")
        word = _WORD.match(text, self.at)
        run = _STATEMENTS.get(word[0].lower()) if word else None
        if run is not None and word is not None:
            self.at = word.end()
            return run(self, location)
        if word is not None and (element := re.compile(r"\s*\(").match(text, word.end())):
            self.at = element.end()
            return self._element(word[0].lower(), location)
        return [self._legacy_action()]

    def _actions(self) -> list[Statement]:
        """The action after a filter, and those of the next lines that begin with ``&``."""
        found = [self._one_action()]
        while self._take("&"):
            self._skip()
            found.append(self._one_action())
        return [one for actions in found for one in actions]

    def _one_action(self) -> list[Statement]:
        self._skip()
        if self.text.startswith("{", self.at):
            self.at += 1
            return self._block("}")
        word = _WORD.match(self.text, self.at)
        if word and (word[0].lower() in _STATEMENTS or re.compile(r"\s*\(").match(self.text, word.end())):
            return self._statement([])
        return [self._legacy_action()]

    def _legacy_action(self) -> Statement:
        """An action of one line: ``-/var/log/mail;Template``, ``@@host:514``, ``~``."""
        location = self.location
        end = self.text.find("\n", self.at)
        end = len(self.text) if end < 0 else end
        line = re.sub(r"\s+#.*", "", self.text[self.at : end]).strip()
        if not line:
            raise self._fail("an action is missing here")
        self.at = end
        if line in ("~", "stop"):
            return Command("stop", "", location)
        return legacy_action(line, location, self.pending)

    def _element(self, kind: str, location: str) -> list[Statement]:
        parameters: dict[str, str | list[str]] = {}
        while not self._take(")"):
            found = _PARAMETER.match(self.text, self.at)
            if found is None:
                raise self._fail(f'a parameter of {kind} is missing here, such as name="value"')
            self.at = found.end()
            parameters[found[1].lower()] = self._value()
            self._take(",")
        body: tuple[Statement, ...] = ()
        if kind in ("ruleset", "template") and self._take("{"):
            body = tuple(self._block("}"))
        if kind == "include":
            return self._include(str(parameters.get("file", "")), location)
        return [Element(kind, parameters, location, body)]

    def _value(self) -> str | list[str]:
        if self._take("["):
            items: list[str] = []
            while not self._take("]"):
                value = self._value()
                items += value if isinstance(value, list) else [value]
                self._take(",")
            return items
        if found := _TEXT.match(self.text, self.at):
            self.at = found.end()
            return unescaped(found[1] if found[1] is not None else found[2])
        if plain := _PLAIN.match(self.text, self.at):
            self.at = plain.end()
            return plain[0]
        raise self._fail("a value is missing here")

    def _if(self, location: str) -> list[Statement]:
        condition, self.at = self._expression()
        self._skip()
        if self._word("then"):
            then = self._actions()
            otherwise = self._actions() if self._word("else") else []
            return [If(condition, tuple(then), tuple(otherwise), location)]
        raise self._fail("'then' is missing here")

    def _word(self, word: str) -> bool:
        self._skip()
        found = _WORD.match(self.text, self.at)
        if found and found[0].lower() == word:
            self.at = found.end()
            return True
        return False

    def _expression(self) -> tuple[Node, int]:
        try:
            return read_expression(self.text, self.at)
        except NoCounterpartError as error:
            raise self._fail(str(error)) from None

    def _set(self, location: str) -> list[Statement]:
        self._skip()
        name = re.compile(r"\$[!./]?[\w!.@-]+").match(self.text, self.at)
        if name is None:
            raise self._fail("the name of a variable is missing here")
        self.at = name.end()
        self._take(":")
        self._need("=")
        value, self.at = self._expression()
        self._need(";")
        return [SetVariable(name[0], value, location)]

    def _unset(self, location: str) -> list[Statement]:
        name = self._argument()
        return [SetVariable(name, None, location)]

    def _argument(self) -> str:
        self._skip()
        found = re.compile(r"[^\s;{}]+").match(self.text, self.at)
        if found is None:
            raise self._fail("a name is missing here")
        self.at = found.end()
        self._take(";")
        return found[0]

    def _foreach(self, location: str) -> list[Statement]:
        self.at = self.text.find("do", self.at) + 2
        self._need("{")
        self._block("}")
        return [Command("foreach", "", location)]

    def _include(self, pattern: str, location: str) -> list[Statement]:
        path = Path(pattern)
        folder = path.parent if path.is_absolute() else self.file.parent / path.parent
        found = sorted(one for one in folder.glob(path.name) if one.is_file()) if path.name and folder.is_dir() else []
        found = [one for one in found if one.resolve() not in {known.resolve() for known in self.files}]
        if not found:
            return [Command("include", pattern, location)]
        return [one for file in found for one in ConfigurationReader(file, self.files, pending=self.pending).read()]

    def _directive(self, name: str, value: str, location: str) -> list[Statement]:
        if name == "includeconfig":
            return self._include(f"{value}*" if value.endswith("/") else value, location)
        if name == "template":
            key, _, rest = value.partition(",")
            quoted = _TEXT.search(rest)
            if quoted is None:
                raise self._fail("the text of the template is missing")
            return [Element("template", {"name": key.strip(), "type": "string", "string": unescaped(quoted[1] or "")}, location)]
        if name == "modload":
            return [Element("module", {"load": value}, location)]
        if made := _LISTENERS.get(name):
            return [Element("input", {**made(value), **self._bound()}, location)]
        self.pending[name] = value
        return []

    def _bound(self) -> dict[str, str | list[str]]:
        names = ("inputudpserverbindruleset", "inputtcpserverbindruleset", "inputptcpserverbindruleset")
        found = next((self.pending[name] for name in names if name in self.pending), "")
        return {"ruleset": found} if found else {}


_LISTENERS: dict[str, Callable[[str], dict[str, str | list[str]]]] = {
    "udpserverrun": lambda port: {"type": "imudp", "port": port},
    "inputtcpserverrun": lambda port: {"type": "imtcp", "port": port},
    "inputptcpserverrun": lambda port: {"type": "imptcp", "port": port},
    "inputrelpserverrun": lambda port: {"type": "imrelp", "port": port},
}

_STATEMENTS: dict[str, Callable[[ConfigurationReader, str], list[Statement]]] = {
    "if": ConfigurationReader._if,
    "set": ConfigurationReader._set,
    "reset": ConfigurationReader._set,
    "unset": ConfigurationReader._unset,
    "stop": lambda _, location: [Command("stop", "", location)],
    "continue": lambda _, location: [],
    "call": lambda reader, location: [Command("call", reader._argument(), location)],
    "call_indirect": lambda reader, location: [Command("call_indirect", reader._argument(), location)],
    "foreach": ConfigurationReader._foreach,
}


def legacy_action(line: str, location: str, pending: dict[str, str]) -> Statement:
    """An action of the older format as an element."""
    target, _, template = line.partition(";")
    target = target.strip()
    made: dict[str, str | list[str]] = {"template": template.strip()} if template.strip() else {}
    if target.startswith("@"):
        made.setdefault("template", pending.get("actionforwarddefaulttemplate", ""))
        protocol = "tcp" if target.startswith("@@") else "udp"
        found = re.fullmatch(r"@{1,2}(?:\(([^)]*)\))?(\[[^\]]+\]|[^:\s]+)(?::(\d+))?", target)
        if found is None:
            return Command("action", line, location)
        framing = {"tcp_framing": "octet-counted"} if "o" in (found[1] or "") else {}
        host = found[2].strip("[]")
        address: dict[str, str | list[str]] = {"type": "omfwd", "target": host, "port": found[3] or "514", "protocol": protocol}
        return Element("action", {**made, **address, **framing}, location)
    if target.lstrip("-").startswith("/"):
        made.setdefault("template", pending.get("actionfiledefaulttemplate", ""))
        return Element("action", {**made, "type": "omfile", "file": target.lstrip("-")}, location)
    if target.lstrip("-").startswith("?"):
        made.setdefault("template", pending.get("actionfiledefaulttemplate", ""))
        return Element("action", {**made, "type": "omfile", "dynafile": target.lstrip("-?")}, location)
    if module := re.fullmatch(r":(\w+):(.*)", target):
        return Element("action", {**made, "type": module[1]}, location)
    kinds = {"|": "ompipe", ">": "ommysql", "^": "omprog"}
    return Element("action", {**made, "type": kinds.get(target[:1], "omusrmsg")}, location)
