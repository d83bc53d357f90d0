"""``etl explain``: the plan of a pipeline, without starting anything."""

from __future__ import annotations

from pathlib import Path

import click

from etl.cli.config_options import PipelineFile, add_config_options, load_environment
from etl.config.loader import load
from etl.delivery.dead_letters import SCHEMA
from etl.plan.planner import plan
from etl.plan.render import render_plan
from etl.running.state_folders import dead_letters
from etl.spark.state.folder import StateFolder

EXAMPLES = """
\b
Examples:
  etl explain ssh.yaml       queries, segments, the lane of each step and why, guarantees
"""


@click.command("explain", epilog=EXAMPLES)
@click.argument("file", type=PipelineFile())
@add_config_options
@click.option("--state", metavar="DIR", help="The state folder the run would have.")
def command(file: Path, state: str | None, overrides: tuple[str, ...], env_file: str | None) -> None:
    """Show the queries and segments of a pipeline, which steps run on Arrow, and what each sink guarantees."""
    pipeline = load(file, load_environment(env_file), overrides)
    for line in render_plan(plan(pipeline, dead_letters(pipeline, StateFolder.of(pipeline.name, state)), SCHEMA)):
        click.echo(line)
