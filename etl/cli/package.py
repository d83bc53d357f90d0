"""``etl package``: the Python packages for hosts of a cluster on which Sluice is not installed."""

from __future__ import annotations

from pathlib import Path

import click

from etl.cli.activity import activity
from etl.cli.config_options import add_force, check_new_file

EXAMPLES = """
\b
Examples:
  etl package sluice.tar.gz
  etl run web.yaml --master spark://m:7077 --environment sluice.tar.gz --state file:///mnt/shared/web
"""


@click.command("package", epilog=EXAMPLES)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.tar.gz")
@add_force
def command(file: Path, force: bool) -> None:
    """Pack Sluice and the packages it needs into FILE, for a cluster whose hosts have Spark and Python only.

    A run with `--environment FILE` sends it to the executors. Hosts need the version of Python that runs this command.
    """
    from etl.api import EtlError, write_advice
    from etl.running.environment_archive import python_name, write_archive

    if not file.name.endswith((".tar.gz", ".tgz")):
        raise click.UsageError(f"Spark unpacks an archive by its ending: {file} needs .tar.gz")
    check_new_file(file, force)
    try:
        with activity("packing") as doing:
            packages = write_archive(file, doing)
    except OSError as error:
        raise EtlError(f"{file} cannot be written: {error.strerror}; {write_advice(error)}") from error
    size = file.stat().st_size / 1e6
    click.echo(f"{file}: {packages} packages, {size:,.0f} MB, for {python_name()} on hosts like this one", err=True)
