"""``etl rules``: checks of files of rules, and the rules' own tests."""

from __future__ import annotations

from collections.abc import Sequence

import click

from etl.cli.rule_groups import groups

_PATHS = click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True))
_FIELDS = click.option("--fields", "names", help="File of the stream's names, as the step's option `fields`.")


@click.group()
def command() -> None:
    """Check rules in files and in pipelines, or run their tests.

    \b
    Examples:
      etl rules check rules/ --fields sigma/windows.yml
      etl rules check hunt.yaml
      etl rules test rules/
    """


@command.command()
@_PATHS
@_FIELDS
@click.option("--columns", help="The stream's fields, with commas between: lists those that rules need and the stream lacks.")
@click.option("--strict", is_flag=True, hidden=True, help="Does what is done without it.")
def check(paths: Sequence[str], names: str | None, columns: str | None, strict: bool) -> None:
    """List what is loaded, what is not and why, which fields are needed, and what costs most.

    Ends with status 1 when a rule cannot be loaded.

    PATHS are files of rules, folders of them, and pipelines. The rules of a pipeline's steps are checked against the fields
    that reach the steps, with the `fields` that they name.
    """
    from etl.rules.compiled_rules import drop_bad_sql
    from etl.rules.problem_locations import locate_problems
    from etl.rules.report import report_lines

    wrong = False
    for group in groups(paths, names, columns):
        rules = group.rules if group.step else drop_bad_sql(group.rules, group.columns)
        wrong |= bool(rules.problems)
        if group.step:
            click.echo(f"{group.step}:")
        for problem in locate_problems(rules.problems):
            click.echo(problem)
        for line in report_lines(rules, group.taxonomy, group.columns):
            click.echo(line)
        for table in group.tables:
            click.echo(f"the rules of table {table!r} are read when the run starts")
    if wrong:
        click.get_current_context().exit(1)


@command.command()
@_PATHS
@_FIELDS
def test(paths: Sequence[str], names: str | None) -> None:
    """Run the test events that rules bring along.

    A rule's key `tests` is a list of `{event: {field: value, …}}`, with `matches: false` where the rule must not fire.

    PATHS are files of rules, folders of them, and pipelines, of which the rules of the steps `rules` and `correlate` are tried.
    """
    from etl.rules.problem_locations import locate_problems
    from etl.rules.test_events import find_failure
    from etl.rules.wording import count_noun

    ran = failed = rules = problems = 0
    for group in groups(paths, names):
        for problem in locate_problems(group.rules.problems):
            click.echo(problem)
        problems, rules = problems + len(group.rules.problems), rules + len(group.rules.rules)
        for rule in group.rules.rules:
            for number, case in enumerate(rule.tests, 1):
                ran += 1
                wrong = find_failure(rule, case, group.taxonomy)
                if wrong:
                    failed += 1
                    click.echo(f"{rule.file}:{rule.line}: {rule.title!r}, test {number}: {wrong}")
    click.echo(f"{count_noun(ran, 'test')} of {count_noun(rules, 'rule')}, {failed} failed", err=True)
    if failed or problems:
        click.get_current_context().exit(1)
