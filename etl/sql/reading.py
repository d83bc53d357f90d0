"""The text of a script → its statements, or where its mistakes are."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from etl.expressions.missing_parts import find_missing_part
from etl.sql.corrections import corrected
from etl.sql.grammar.look_alikes import look_alike
from etl.sql.statements import CreateView, Insert, Script, ScriptError, Statement

MAX_TOKENS = 50_000
"""Maximum number of tokens of a script."""


def read_script(text: str) -> Script:
    """Read all statements; one with an error does not hide the errors of others."""
    from sqlglot.errors import SqlglotError, TokenError

    from etl.sql.grammar.script_parser import ScriptParser, script_dialect

    script = Script(text)
    text, script.warnings = corrected(text)
    dialect = script_dialect()
    try:
        tokens = dialect.tokenize(text)
    except TokenError:
        script.errors.append(_not_closed(text))
        return script
    if len(tokens) > MAX_TOKENS:
        script.errors.append(ScriptError("file-too-large", f"more than {MAX_TOKENS:,} tokens", 0))
        return script
    if prefixes := _find_prefixes(tokens, text):
        for first, last, _ in prefixes:
            text = f"{text[:first]}{' ' * (last - first)}{text[last:]}"
        tokens = dialect.tokenize(text)
    explained = _explained(prefixes, tokens, text)
    for part in _split(tokens):
        count = len(script.errors)
        parser = ScriptParser(dialect=dialect)
        try:
            statements = parser.parse_statement(part, text)
            _check_complete(statements, part, text)
            script.warnings += parser.warnings
            script.errors += parser.errors_found
            if not any(first <= part[0].start < last for first, last in explained):  # what is explained does not run
                script.statements += statements
        except ScriptError as error:
            script.errors.append(look_alike(text, part) or error)
        except SqlglotError as error:
            script.errors.append(_syntax_error(error, text, part))
        except RecursionError:
            script.errors.append(ScriptError("sql-syntax", "the statement is nested too deeply", part[0].start))
        if len(script.errors) > count and not parser.errors_found:
            script.unread |= _declared_names(part)
    return script


def _check_complete(statements: list[Statement], tokens: list[Any], text: str) -> None:
    """Raise ScriptError for a query with a list or clause of which a part is missing."""
    if not statements or not isinstance(statements[0], CreateView | Insert):
        return  # rsqldb reads declarations with commas too many and too few
    if missing := find_missing_part(text, tokens):
        raise ScriptError("sql-syntax", missing.message, missing.at, missing.hint)


def _declared_names(tokens: list[Any]) -> set[str]:
    """The names after CREATE TABLE and CREATE VIEW, in lower case, of which there may be several where semicolons are missing."""
    words = [token.text.lower() for token in tokens]
    found = set()
    for at, word in enumerate(words):
        if word in ("table", "view") and "create" in words[max(0, at - 4) : at]:
            rest = words[at + 1 :]
            rest = rest[3:] if rest[:3] == ["if", "not", "exists"] else rest
            while rest[1:2] == ["."]:
                rest = rest[2:]
            found.update(rest[:1])
    return found


_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL)
"""A text, name or comment from its beginning to its end."""


def _not_closed(text: str) -> ScriptError:
    """The quote or comment that begins after the last one that ends."""
    rest = _QUOTED.sub(lambda found: " " * len(found[0]), text)
    found = re.search(r"['\"`]|/\*", rest)
    if not found:
        return ScriptError("sql-syntax", "a quote or comment is not closed", len(text))
    what = "comment" if found[0] == "/*" else f"quote {found[0]}"
    hint = "a quote in a text is written twice: ''" if found[0] == "'" else None
    return ScriptError("sql-syntax", f"the {what} that begins here is not closed", found.start(), hint)


_PREFIX = re.compile(
    r"""
    (?P<explain>EXPLAIN\b(\s*(PLAN\s+FOR\b|ESTIMATED_COST\b|CHANGELOG_MODE\b|JSON_EXECUTION_PLAN\b|PLAN_ADVICE\b|,))*
      (\s*STATEMENT\s+SET\b)?)(?P<begin>\s*BEGIN\b)?
  | EXECUTE\b(?!\s+PLAN\b)(\s+STATEMENT\s+SET\b)?(\s+BEGIN\b)?
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""What stands before statements, which are read as others are."""


def _find_prefixes(tokens: list[Any], text: str) -> list[tuple[int, int, str]]:
    """Beginnings and ends of EXPLAIN and EXECUTE before statements; the tokenizer takes what follows for one text. The third is
    ``one`` or ``set`` for what is explained, a statement or those until END, else empty."""
    firsts = [part[0] for part in _split(tokens)]
    found = (_PREFIX.match(text, token.start) for token in firsts if token.text.upper() in ("EXPLAIN", "EXECUTE"))
    return [(*one.span(), "" if not one["explain"] else "set" if one["begin"] else "one") for one in found if one]


def _explained(prefixes: list[tuple[int, int, str]], tokens: list[Any], text: str) -> list[tuple[int, int]]:
    """Ranges of the script that are explained, and do not run."""
    from sqlglot.tokenizer_core import TokenType

    ends = {"one": TokenType.SEMICOLON, "set": TokenType.END}
    return [
        (last, next((token.start for token in tokens if token.start >= last and token.token_type == ends[kind]), len(text)))
        for _, last, kind in prefixes
        if kind
    ]


def _split(tokens: list[Any]) -> list[list[Any]]:
    """Tokens of each statement, without the semicolons; ``BEGIN STATEMENT SET; … END`` is dropped around its statements."""
    from sqlglot.tokenizer_core import TokenType

    parts: list[list[Any]] = [[]]
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            parts.append([])
        else:
            parts[-1].append(token)
    for token, following in pairwise(tokens):
        if token.token_type == TokenType.WINDOW and following.token_type == TokenType.L_PAREN:
            token.token_type = TokenType.VAR  # the function; the clause has a name there
    found = []
    for part in parts:
        words = [token.text.upper() for token in part[:4]]
        if words in (["BEGIN", "STATEMENT", "SET"], ["END"]):
            continue
        if part:
            found.append(part)
    return found


def _syntax_error(error: Exception, text: str, tokens: list[Any]) -> ScriptError:
    details = getattr(error, "errors", None)
    first = details[0] if details else {}
    word = first.get("highlight") or ""
    lines = text.splitlines(keepends=True)
    at = tokens[0].start
    if strange := look_alike(text, tokens):
        return strange
    if first.get("line"):
        at = sum(map(len, lines[: first["line"] - 1])) + max(0, (first.get("col") or 1) - max(1, len(word)))
    what = first.get("description") or str(error).splitlines()[0]
    if what.startswith("Expecting )"):
        return ScriptError("sql-syntax", f"')' is expected before {word!r}", at, "a comma or bracket may be missing before it")
    if what.startswith("Required keyword"):
        return ScriptError("sql-syntax", f"something is missing beside {word!r}", at)
    return ScriptError("sql-syntax", f"{word!r} does not belong here" if word else what, at)
