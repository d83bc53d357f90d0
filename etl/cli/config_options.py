"""Arguments and options of commands that read pipeline files: the file, `--set`, `--env-file`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class PipelineFile(click.Path):
    """A file's path, or the name of a recipe if there is no file of that name."""

    def __init__(self, exists: bool = False, dir_okay: bool = True) -> None:
        super().__init__(exists=exists, dir_okay=dir_okay, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path of the pipeline file."""
        if Path(value).exists():
            return super().convert(value, param, ctx)
        if re.fullmatch(r"[\w-]+", str(value)):
            from etl.api import nearest
            from etl.resources import recipes, scripts

            found = recipes() | scripts()
            if value not in found:
                hint = nearest_file(str(value)) or nearest(str(value), found) or "`etl recipes` lists those that there are"
                self.fail(f"there is no file or recipe {str(value)!r}; {hint}", param, ctx)
            value = found[str(value)]
        elif near := nearest_file(str(value)):
            self.fail(f"there is no file {str(value)!r}; {near}", param, ctx)
        return super().convert(value, param, ctx)


def nearest_file(path: str) -> str | None:
    """``did you mean 'first.yaml'?`` for the most similar pipeline file of the folder, with or without its suffix, or None."""
    from etl.api import closest

    folder, name = os.path.split(path)
    files = sorted(file.name for pattern in ("*.yaml", "*.yml", "*.sql") for file in Path(folder).glob(pattern))
    by_stem = {file.rpartition(".")[0]: file for file in reversed(files)}
    stem, dot, suffix = name.rpartition(".")
    near = closest(stem if dot and suffix in ("yaml", "yml", "sql") else name, by_stem)  # suffixes make all names similar
    return f"did you mean {os.path.join(folder, by_stem[near])!r}?" if near else None


def add_config_options(command: F) -> F:
    """The options ``--set`` (``overrides``) and ``--env-file`` (``env_file``)."""
    replaced = click.option(
        "--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Replace a value of the file; may be repeated."
    )
    read = click.option(
        "--env-file", metavar="F", type=click.Path(exists=True, dir_okay=False), help="NAME=value lines for ${NAME}."
    )
    return replaced(read(command))


def add_force(command: F) -> F:
    """The option ``--force`` of a command that writes a file; `check_new_file` gets it."""
    return click.option("--force", is_flag=True, help="Replace a file that exists.")(command)


def check_new_file(target: Path, force: bool) -> None:
    """Raise UsageError for a file that exists, unless the user wants it replaced, and for one in a folder that does not exist.

    A pipe or a device is written to.
    """
    if not target.parent.is_dir():
        raise click.UsageError(f"{target}: there is no folder {str(target.parent)!r}")
    if target.is_file() and not force:
        raise click.UsageError(f"{target} exists already: choose another name, or replace it with --force")


def ask(question: str, otherwise: str) -> None:
    """Raise EtlError with ``otherwise`` unless the user says yes, UsageError where nobody can answer."""
    from etl.api import EtlError

    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to confirm on: give --yes")
    if not click.confirm(question, err=True):
        raise EtlError(otherwise)


def load_environment(env_file: str | None) -> Mapping[str, str]:
    """The process's environment over that of a file."""
    if env_file is None:
        return os.environ
    from etl.config.environment import read_env_file

    return {**read_env_file(env_file), **os.environ}
