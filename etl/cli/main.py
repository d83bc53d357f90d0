"""The command ``etl``: its subcommands are imported when they are called."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from etl.lean import forbid

if TYPE_CHECKING:
    from etl.running.shared_session import SharedSession


class Subcommand(NamedTuple):
    """Where a subcommand is defined (a module with ``command``, or ``module:attribute``), and its line in ``etl --help``."""

    module: str
    summary: str


COMMANDS: Mapping[str, Subcommand] = {
    "run": Subcommand("etl.cli.run.command", "Run pipelines until they end or are stopped."),
    "lint": Subcommand("etl.cli.lint", "Check pipeline files; print every problem with its line."),
    "test": Subcommand("etl.cli.test", "Run the tests of pipelines: lines in, events out."),
    "explain": Subcommand("etl.cli.explain", "Show how a pipeline will run: queries, lanes, guarantees."),
    "graph": Subcommand("etl.cli.graph", "Draw a pipeline as a tree or as a Mermaid chart."),
    "list": Subcommand("etl.cli.list", "List sources, steps, parsers, sinks and functions."),
    "describe": Subcommand("etl.cli.describe", "Explain one component, pattern or function."),
    "schema": Subcommand("etl.cli.schema", "Print the JSON Schema of pipeline files."),
    "serve": Subcommand("etl.cli.server.serve", "Run the pipelines of a folder, with an HTTP API."),
    "ps": Subcommand("etl.cli.server.reading:ps", "List the pipelines of a server, and the runs on this machine."),
    "status": Subcommand("etl.cli.server.reading:status", "Show what a pipeline does: state, rates, steps, sinks."),
    "logs": Subcommand("etl.cli.server.reading:logs", "Show the messages of a pipeline, and follow them."),
    "top": Subcommand("etl.cli.server.top", "Show all pipelines live, in a table."),
    "tap": Subcommand("etl.cli.server.tap", "Show samples of the events that pass a stream."),
    "deploy": Subcommand("etl.cli.server.changes:deploy", "Run pipeline files on a server."),
    "start": Subcommand("etl.cli.server.changes:start", "Start a pipeline of a server."),
    "stop": Subcommand("etl.cli.server.changes:stop", "Stop a pipeline after its micro-batch."),
    "pause": Subcommand("etl.cli.server.changes:pause", "Pause a pipeline of a server; its receivers still accept events."),
    "restart": Subcommand("etl.cli.server.changes:restart", "Stop a pipeline after its micro-batch, and start it again."),
    "rollback": Subcommand("etl.cli.server.changes:rollback", "Run an earlier version of a pipeline."),
    "remove": Subcommand("etl.cli.server.changes:remove", "Remove a pipeline from a server; its state stays."),
    "token": Subcommand("etl.cli.server.token", "Make a token for clients of a server."),
    "state": Subcommand("etl.cli.state.command", "Show what windows and other steps remember, also during a run."),
    "dead": Subcommand("etl.cli.dead.command", "Show, export, replay and drop dead letters."),
    "infer": Subcommand("etl.cli.infer", "Find the recipe or parser that reads a file."),
    "grok": Subcommand("etl.cli.grok", "Try a grok pattern on a file; see where it stops matching."),
    "rules": Subcommand("etl.cli.rules", "Check files of rules, and run their tests."),
    "recipes": Subcommand("etl.cli.recipes", "List the pipelines that come with the package."),
    "convert": Subcommand("etl.cli.convert", "Convert pipelines between YAML and SQL; rules of other tools."),
    "studio": Subcommand("etl.cli.studio", "Make a pipeline from pasted lines, on a page in the browser."),
    "import": Subcommand(
        "etl.cli.import_config", "Turn a configuration of Logstash, Filebeat, Vector or another tool into a pipeline."
    ),
    "package": Subcommand("etl.cli.package", "Pack Sluice for the hosts of a cluster."),
    "init": Subcommand("etl.cli.init", "Write a new pipeline file, from a recipe or to fill in."),
}

WITH_NUMPY = {"run", "serve", "tap", "explain", "state", "dead", "test", "rules", "infer", "grok", "init"}
"""Commands that run or plan steps, which need numpy; the others must not import it."""

WITHOUT_PANDAS = {"state"}
"""Commands of `WITH_NUMPY` that must not import pandas: pyarrow would, where it converts values."""


class LazyGroup(click.Group):
    """Lists the subcommands of `COMMANDS`, and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.module.partition(":")
        found: click.Command = getattr(import_module(module), attribute or "command")
        return found

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else f" Commands are: {', '.join(COMMANDS)}."
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])


def _print_version(ctx: click.Context, _: click.Parameter, is_requested: bool) -> None:
    if is_requested and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"etl {version('sluice-etl')}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Print the version.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks of errors; accepted anywhere before `--`.")
def cli() -> None:
    """Streams of logs and events, from one YAML file.

    \b
    Examples:
      etl init ssh-failed-logins      start from a recipe
      etl lint ssh-failed-logins.yaml
      etl run ssh-failed-logins.yaml
    """


def main(arguments: Sequence[str] | None = None, shared: SharedSession | None = None) -> None:
    """Run the command line and exit: 0 success, 1 findings or a failed run, 2 wrong use. ``shared``: a Spark session for
    ``etl run``, which otherwise starts its own."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    own = given[: given.index("--")] if "--" in given else given
    debug = "--debug" in own
    line = [word for word in own if word != "--debug"] + given[len(own) :]
    if arguments is None:
        if not WITH_NUMPY & set(line[:1]):
            forbid("pandas", "numpy")
        elif WITHOUT_PANDAS & set(line[:1]):
            forbid("pandas")
        _escape_unknown_characters()
    out = sys.stdout
    try:
        status = cli.main(line, prog_name="etl", standalone_mode=False, obj=shared)
        sys.stdout.flush()
    except BaseException as error:
        if debug and not isinstance(error, (SystemExit, KeyboardInterrupt, click.ClickException, click.Abort)):
            raise
        status = 0 if sys.stdout is not out else _status(error)  # click replaces it when the reader of a pipe has gone
    if arguments is None:
        gc.freeze()  # the process ends: collecting all its objects would take a tenth of a second for nothing
    sys.exit(status if isinstance(status, int) else 0)


def _escape_unknown_characters() -> None:
    """Write characters that the terminal's charset does not have as escapes, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _status(error: BaseException) -> Any:
    """Print the error and return the exit status."""
    if isinstance(error, SystemExit):
        return error.code
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return 130
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    _print_error(error)
    return 1


def _print_error(error: BaseException) -> None:
    """Print problems of a file as lint does, any other error as one message."""
    from etl.cli.lint import print_text
    from etl.config.problems import ConfigError

    if isinstance(error, ConfigError):
        print_text(error.problems, err=True)
    else:
        click.echo(f"{click.style('error:', fg='red', bold=True)} {_error_message(error)}", err=True)


def _error_message(error: BaseException) -> str:
    """The message for the user: expected errors are shown as they are; any other error is a defect of this program, or a limit of
    the machine."""
    from etl.api import EtlError
    from etl.system_errors import with_advice

    if isinstance(error, OSError):
        return with_advice(error)
    if isinstance(error, EtlError):
        return str(error)
    if isinstance(error, MemoryError):
        return "there is no memory left for this process"
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return "this user or container has as many processes and threads as it may have (ulimit -u, or pids.max of the container)"
    return f"{type(error).__name__}: {error}\n  hint: this is a defect of etl; add --debug and report it"
