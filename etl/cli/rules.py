"""``etl rules``: what files of rules hold, and whether rules fire for their own test events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from etl.rules.rule import Rule, RuleSet
    from etl.rules.taxonomy import Taxonomy

_PATHS = click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True))
_FIELDS = click.option("--fields", "names", help="File of the stream's names, as the step's option `fields`.")


@click.group()
def command() -> None:
    """Check files of rules, or run their tests.

    \b
    Examples:
      etl rules check rules/ --fields sigma/windows.yml
      etl rules test rules/
    """


@command.command()
@_PATHS
@_FIELDS
@click.option("--columns", help="The stream's fields, with commas between: says which ones rules ask for in vain.")
@click.option("--strict", is_flag=True, help="End with status 1 when a rule cannot be loaded.")
def check(paths: Sequence[str], names: str | None, columns: str | None, strict: bool) -> None:
    """List what is loaded, what is not and why, which fields are needed, and what costs most.

    PATHS are files of rules and folders.
    """
    from etl.rules.in_force import readable
    from etl.rules.report import report

    taxonomy, rules = _read(paths, names)
    given = [name.strip() for name in columns.split(",")] if columns else None
    rules = readable(rules, given)
    for problem in rules.problems:
        click.echo(problem)
    for line in report(rules, taxonomy, given):
        click.echo(line)
    if strict and rules.problems:
        click.get_current_context().exit(1)


@command.command()
@_PATHS
@_FIELDS
def test(paths: Sequence[str], names: str | None) -> None:
    """Run the test events that rules bring along.

    A rule's key `tests` is a list of `{event: {field: value, …}}`, with `matches: false` where the rule must not fire.
    """
    from etl.rules.said import counted

    taxonomy, rules = _read(paths, names)
    for problem in rules.problems:
        click.echo(problem)
    ran = failed = 0
    for rule in rules.rules:
        for number, case in enumerate(rule.tests, 1):
            ran += 1
            wrong = _outcome(rule, case, taxonomy)
            if wrong:
                failed += 1
                click.echo(f"{rule.file}:{rule.line}: {rule.title!r}, test {number}: {wrong}")
    click.echo(f"{counted(ran, 'test')} of {counted(len(rules.rules), 'rule')}, {failed} failed", err=True)
    if failed or rules.problems:
        click.get_current_context().exit(1)


def _read(paths: Sequence[str], names: str | None) -> tuple[Taxonomy, RuleSet]:
    from etl.rules.files import read_rules, rule_files
    from etl.rules.taxonomy import TaxonomyError, read_taxonomy

    try:
        taxonomy = read_taxonomy(names)
    except TaxonomyError as error:
        raise click.UsageError(str(error)) from error
    files = rule_files(paths)
    if not files:
        raise click.UsageError("no files of rules there; their names end in .yml or .yaml")
    return taxonomy, read_rules(files, (), taxonomy.placeholders)


def _outcome(rule: Rule, case: Any, taxonomy: Taxonomy) -> str | None:
    """What is wrong with a test, or None."""
    from etl.rules.trial import fires

    if not isinstance(case, Mapping) or not isinstance(case.get("event"), Mapping):
        return f"a test is a mapping with an 'event', and this is {case!r}"
    wanted = bool(case.get("matches", True))
    found = fires(rule, case["event"], taxonomy)
    if isinstance(found, str):
        return found
    return None if found == wanted else f"it {'does not fire' if wanted else 'fires'}"
