"""Arguments and options of commands that read pipeline files: the file, `--set`, `--env-file`."""

from __future__ import annotations

import os
import re
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
        if re.fullmatch(r"[\w-]+", str(value)) and not Path(value).exists():
            from etl.api import nearest
            from etl.resources import recipes

            found = recipes()
            if value not in found:
                hint = nearest(str(value), found) or "`etl recipes` lists those that there are"
                self.fail(f"there is no file or recipe {str(value)!r}; {hint}", param, ctx)
            value = found[str(value)]
        return super().convert(value, param, ctx)


def configured(command: F) -> F:
    """The options ``--set`` (``overrides``) and ``--env-file`` (``env_file``)."""
    replaced = click.option(
        "--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Replace a value of the file; may be repeated."
    )
    read = click.option(
        "--env-file", metavar="F", type=click.Path(exists=True, dir_okay=False), help="NAME=value lines for ${NAME}."
    )
    return replaced(read(command))


def environment(env_file: str | None) -> Mapping[str, str]:
    """The process's environment over that of a file."""
    if env_file is None:
        return os.environ
    from etl.config.environment import read_env_file

    return {**read_env_file(env_file), **os.environ}
