"""Names follow the table of words in CONTRIBUTING.md: nouns for values, verbs for work."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from etl.cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
RIDDLES = (
    "told|said|seen|kept|asked|given|reached|felt|heard|held|known|wanted|found|taken|made|"
    "standing|becoming|anew|ear|ours|patience"
)
"""No name consists of one of these words, which say of a thing only what happened to it."""

MAX_LINES = 600
"""Lines of a module. One of more than 250 may hold two ideas; the longest now is a language of its own."""

MAX_MODULES = 25
"""Modules of a folder."""

FOLDERS = ("etl", "connectors", "parsers")
GENERATED = ROOT / "etl" / "sdk" / "generated"


def modules() -> Iterator[Path]:
    """All modules of the product that are written by hand."""
    paths = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    return (path for path in paths if GENERATED not in path.parents)


NAME = re.compile(r"^[ \t]*(?:async +def|def|class) +(\w+)", re.MULTILINE)


def names(path: Path) -> Iterator[tuple[str, int]]:
    """The names of the classes and functions of a module, with their lines. Parsing all modules takes ten times as long."""
    text = path.read_text("utf-8")
    for found in NAME.finditer(text):
        yield found[1], text.count("\n", 0, found.start()) + 1


def test_no_name_is_a_riddle() -> None:
    riddle = re.compile(rf"_*(?:{RIDDLES})", re.IGNORECASE)

    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}" for path in modules() for name, line in names(path) if riddle.fullmatch(name)
    ]
    assert wrong == [], "a function begins with a verb, a value is a noun: see the words of CONTRIBUTING.md"


VARIABLE = re.compile(
    r"""
    (?:^[ \t]*(?:for\ )?(?:\w+,\ )*|[(,]\ ?|self\._?)
    (?P<name>most|least|wanted|unwanted|places?|kept|seen|told|said|asked)
    (?:,\ \w+)*(?:\ [:|&+]?=\ |\ in\ |:\ (?:[A-Z]|int|str|bool|float|bytes|list|dict|set|frozenset|tuple|pa\.|np\.))
    """,
    re.MULTILINE | re.VERBOSE,
)
"""A variable, parameter or field that is called by one of these words."""


def test_variables_are_called_by_what_they_hold() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, found.start('name')) + 1}: {found['name']}"
        for path in modules()
        for text in [path.read_text("utf-8")]
        for found in VARIABLE.finditer(text)
    ]
    assert wrong == [], (
        "name the bound (max_rows), what is requested, the index, offset, address or location, what remains or is known"
    )


PHRASES = re.compile(
    r"""
    \b[Ss]o\ many\b |                     # 'at most so many': name the number
    """
    + '"""'
    + r"""(?:Most|Fewest|Least)\ (?!events\ have) |  # of a bound: maximum, minimum
    \b(?:needed|needs|counts?|matters?)\ no\ more\b(?!\ than|\ \w+\ than) |  # no longer
    ,\ as\ there\b(?!\ is|\ are|\ was)     # name the tool that is meant
    """,
    re.VERBOSE,
)
"""Phrases that readers of thirty modules had to ask for, and that came back."""


def test_phrases_that_had_to_be_asked_for_do_not_come_back() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {found[0]}"
        for path in modules()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        for found in PHRASES.finditer(line)
    ]
    assert wrong == [], "a bound is a maximum or minimum number; see section Words of CONTRIBUTING.md"


def test_modules_have_one_idea() -> None:
    long = [str(path.relative_to(ROOT)) for path in modules() if path.read_text("utf-8").count("\n") > MAX_LINES]
    assert long == [], f"more than {MAX_LINES} lines: look for the second idea inside"


def test_folders_are_one_room() -> None:
    counts = Counter(path.parent.relative_to(ROOT) for path in modules() if path.name != "__init__.py")
    assert {str(folder): count for folder, count in counts.items() if count > MAX_MODULES} == {}, "divide it into packages"


REFERENCE = re.compile(r"`((?:etl|connectors|parsers)(?:\.\w+)+)(?:\(\))?`")
"""A module of the product, or a name in one, in backticks."""


def exists(reference: str) -> bool:
    """Whether a module exists, and has the word that follows it."""
    parts = reference.split(".")
    for count in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:count])
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if file.exists():
            return count == len(parts) or re.search(rf"\b{parts[count]}\b", file.read_text("utf-8")) is not None
    return False


def test_references_to_modules_and_their_names_are_not_stale() -> None:
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "CONTRIBUTING.md", ROOT / "README.md", *modules()]
    references = {(found, path.relative_to(ROOT)) for path in pages for found in REFERENCE.findall(path.read_text("utf-8"))}

    assert len(references) > 50
    assert sorted(f"{path}: {one}" for one, path in references if not exists(one) and one != "etl.components") == []


COMMAND = re.compile(r"`etl ([a-z]+)")
"""A command in a message, a docstring or a comment."""


def test_commands_that_messages_name_exist() -> None:
    named = {(found, path.relative_to(ROOT)) for path in modules() for found in COMMAND.findall(path.read_text("utf-8"))}

    assert len(named) > 50
    assert sorted(f"{path}: etl {name}" for name, path in named if name not in COMMANDS) == []
