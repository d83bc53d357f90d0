"""What a command line may say about the values of a pipeline file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


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
