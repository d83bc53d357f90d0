"""``etl init``: a new pipeline file."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from etl.resources import recipes, scripts

if TYPE_CHECKING:
    from etl.inference.match import Match

STARTER_NAME = "pipeline.yaml"
STARTER = """\
# A pipeline: where events come from, what is done to them, where they go.
# Check it:      etl lint pipeline.yaml
# Run it:        etl run pipeline.yaml
# What there is: etl list, etl describe grok
description: Failed SSH logins.

source:
  type: file
  path: ${AUTH_LOG:-/var/log/auth.log}

steps:
  # text → fields; %{NAME:field} takes what the pattern NAME finds
  - type: grok
    patterns:
      - "Failed password for (invalid user )?%{USERNAME:user_name} from %{IP:source.ip}"
    on_error: drop            # other lines are not failed logins

  # keep what a Spark SQL condition is true for
  - type: filter
    where: user_name <> 'backup'

sink:
  type: console
"""


SCRIPT_NAME = "job.sql"
SCRIPT = """\
-- A script: tables are where events come from and go to, queries what is done to them.
-- Check it:  etl lint job.sql
-- Run it:    etl run job.sql --once --drain
-- In YAML:   etl convert job.sql

CREATE TABLE logins (
  user_name STRING,
  address STRING,
  outcome STRING,
  `time` TIMESTAMP(3),
  WATERMARK FOR `time` AS `time` - INTERVAL '5' SECOND   -- how late events may come
) WITH ('type' = 'file', 'path' = '${LOGINS:-logins.jsonl}', 'format' = 'json');

CREATE TABLE alerts (
  address STRING,
  failures BIGINT,
  users BIGINT,
  until_time TIMESTAMP(3)
) WITH ('type' = 'console');

-- addresses with many failures in a minute
INSERT INTO alerts
SELECT address, count(*), count(DISTINCT user_name), window_end
FROM TABLE(TUMBLE(TABLE logins, DESCRIPTOR(`time`), INTERVAL '1' MINUTE))
WHERE outcome = 'failed'
GROUP BY address, window_start, window_end
HAVING count(*) >= 3;
"""


@click.command()
@click.argument("recipe", required=False)
@click.option("--sql", "as_script", is_flag=True, help="Write an SQL script to fill in.")
@click.option("--for", "origin", type=click.Path(path_type=Path), metavar="FILE", help="Find what reads FILE best, and read it.")
def command(recipe: str | None, as_script: bool, origin: Path | None) -> None:
    """Write a pipeline file into this folder: a copy of RECIPE, what fits a FILE, or one to fill in.

    \b
    Examples:
      etl init
      etl recipes
      etl init ssh-failed-logins
      etl init --sql
      etl init --for /var/log/auth.log
    """
    if recipe and origin:
        raise click.UsageError("give a recipe or --for FILE; etl infer FILE shows what reads a file")
    if as_script and (recipe or origin):
        raise click.UsageError("--sql writes a script to fill in; `etl convert FILE --to sql` makes a script of a pipeline")
    if as_script:
        _write(Path(SCRIPT_NAME), SCRIPT)
        return
    if origin:
        _init_for(origin)
    else:
        _write(Path(f"{recipe}{_suffix(recipe)}" if recipe else STARTER_NAME), _recipe(recipe) if recipe else STARTER)
        if recipe and (tests := _tests_beside(recipe)).is_file():
            _write(Path(tests.name), tests.read_text(encoding="utf-8"), then="test")


def _write(target: Path, text: str, then: str = "lint") -> None:
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise click.ClickException(f"{target} exists already; remove it or work in another folder") from None
    click.echo(f"wrote {target}; next: etl {then} {target}", err=True)


def _init_for(origin: Path) -> None:
    """Write a pipeline that reads a file with the recipe or parser that reads its beginning best."""
    from etl.cli.activity import activity

    with activity(f"reading {origin}") as doing:
        best, text = _infer_pipeline(origin, doing)
    name = best.candidate.name if best.candidate.recipe else _file_name(origin)
    click.echo(f"{best.candidate.kind} {best.candidate.name}: {_reads(best)}", err=True)
    _write(Path(f"{name}.yaml"), text, then="run")
    if 2 * best.rejected > best.events:
        click.echo(
            f"most events would be dead letters: write a pattern for them; `etl infer {origin}` shows such events", err=True
        )


def _infer_pipeline(origin: Path, doing: Callable[[str], None]) -> tuple[Match, str]:
    """The best match for a file, and a pipeline with a test that uses it."""
    from etl.api import EtlError
    from etl.cli.infer import nothing_reads
    from etl.inference.generated_test import add_test
    from etl.inference.pipeline_file import pipeline_text
    from etl.inference.sample import open_sample
    from etl.inference.search import find_matches

    with open_sample(origin) as sample:
        found = find_matches(sample, doing=doing)
        if not found:
            raise EtlError(nothing_reads(sample))
        doing("testing the pipeline")
        return found[0], add_test(pipeline_text(found[0], origin), found[0], sample)


def _reads(match: Match) -> str:
    """``reads 98 of the first 100 events, rejects 2``."""
    others = {"rejects": match.rejected, "passes over": match.events - match.read - match.rejected}
    counts = "".join(f", {word} {number:,}" for word, number in others.items() if number)
    return f"reads {match.read:,} of the first {match.events:,} events{counts}"


def _file_name(origin: Path) -> str:
    """``access`` for ``access.log.1.gz``; without characters that names of pipelines must not have."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", origin.name.partition(".")[0]).strip("-_")
    return name if name[:1].isalpha() else f"pipeline-{name}".rstrip("-")


def _tests_beside(recipe: str) -> Path:
    """The file of tests of a recipe that is a script."""
    return (recipes() | scripts())[recipe].with_name(f"{recipe}_test.yaml")


def _suffix(recipe: str) -> str:
    return ".sql" if recipe in scripts() else ".yaml"


def _recipe(name: str) -> str:
    from difflib import get_close_matches

    from etl.inference.pipeline_file import recipe_text

    found = recipes() | scripts()
    if name not in found:
        near = get_close_matches(name, found, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"recipes are: {', '.join(found) or 'none'}"
        raise click.UsageError(f"there is no recipe {name!r}; {hint}")
    return recipe_text(found[name])
