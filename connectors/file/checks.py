"""Findings about the options of a ``file`` sink."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pyarrow as pa

from connectors.file.date_spelling import date_findings, meant_date
from connectors.file.encodings import EXTENSIONS, Encoding, Format
from connectors.file.templates import parse_template
from etl.api import Finding, Schema, unknown_field

_FORMATS: dict[str, Format] = {".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".parquet": "parquet"}


def of_path(path: str) -> Iterator[Finding]:
    """Braces that do not close, paths that events could lead out of, folders without their slash."""
    pieces = parse_template(path).pieces
    if any("{" in literal or "}" in literal for literal in pieces[::2]):
        yield Finding("bad-path", f"{path!r} has a brace that is not closed or not opened", ("path",))
    if any("/../" in f"/{literal}/" for literal in pieces[2::2]):
        yield Finding("bad-path", "'..' behind a brace would lead out of the folder in front of it", ("path",))
    if "\0" in path:
        yield Finding("bad-path", "a path cannot hold a NUL character", ("path",))
    elif len(pieces) > 1 and not pieces[0].rpartition("/")[0].strip("/"):
        yield Finding(
            "no-literal-prefix",
            f"{path!r} begins with a value; a folder in front of it confines what events can write to",
            ("path",),
            f"write {'out/' + path.lstrip('/')!r}",
        )
    elif len(pieces) == 1 and not path.endswith("/") and os.path.isdir(os.path.expanduser(path)):
        yield Finding("path-is-folder", f"{path!r} is a folder", ("path",), f"write {path + '/'!r} for a folder of parts")


def of_braces(path: str, time_field: str | None, incoming: Schema) -> Iterator[Finding]:
    """Fields that are not there or make no name, dates spelled wrong, and a time that is none."""
    yield from date_findings(parse_template(path), "path")
    for name in parse_template(path).fields:
        at = path.index("{" + name + "}") + 1
        if name not in incoming.names:
            yield unknown_field(name, incoming, ("path",), at, _date_hint(name))
        elif pa.types.is_nested(incoming.field(name).type):
            yield Finding(
                "wrong-type", f"field {name!r} is {incoming.field(name).type}, which makes no file name", ("path",), at=at
            )
    if time_field is not None and time_field not in incoming.names:
        yield unknown_field(time_field, incoming, ("time_field",))
    elif time_field is not None and not is_time(incoming.field(time_field).type):
        type_ = incoming.field(time_field).type
        yield Finding("wrong-type", f"field {time_field!r} is {type_}, and dates are taken from a timestamp", ("time_field",))


def of_unbounded_fields(path: str, incoming: Schema) -> Iterator[Finding]:
    """Fields that may have any number of values, each of which is a file or folder."""
    for name in dict.fromkeys(parse_template(path).fields):
        if name in incoming.names and not pa.types.is_boolean(incoming.field(name).type):
            message = f"each value of {name!r} makes a file or folder, and nothing says how many there may be"
            hint = "add `max_paths: 1000` or as many as you expect; events of further paths are then dead letters"
            yield Finding("unbounded-paths", message, ("path",), hint, "warning", at=path.index("{" + name + "}") + 1)


def of_format(path: str, encoding: Encoding) -> Iterator[Finding]:
    """A path whose extensions promise something else."""
    plain = path
    for name, ending in EXTENSIONS.items():
        if ending and plain.endswith(ending):
            plain = plain.removesuffix(ending)
            if encoding.compression != name:
                message = f"{path!r} ends in {ending}, and compression is {encoding.compression}"
                hint = f"write 'compression: {name}', or leave it out"
                yield Finding("extension-mismatch", message, ("compression",), hint, "warning")
    meant = _FORMATS.get(os.path.splitext(plain)[1])
    if meant and meant != encoding.format:
        message = f"{path!r} looks like {meant}, and format is {encoding.format}"
        yield Finding("extension-mismatch", message, ("format",), f"write 'format: {meant}', or another path", "warning")


def of_single_file(path: str, encoding: Encoding, is_remote: bool, has_roll: bool) -> Iterator[Finding]:
    """What a single file cannot do."""
    hint = "end the path with '/' for a folder of parts"
    if encoding.format == "parquet":
        message = "a single Parquet file is written when the run ends, not while it follows"
        yield Finding("parquet-single-file", message, ("path",), hint, "warning")
    elif is_remote:
        yield Finding("cannot-append", f"{path!r} cannot grow: this file system writes files once", ("path",), hint)
    if has_roll:
        yield Finding("unused-option", "a single file is never rolled", ("roll",), hint, "warning")


def is_time(type_: pa.DataType) -> bool:
    """True for types that dates can be taken from."""
    return pa.types.is_timestamp(type_) or pa.types.is_date(type_)


def _date_hint(name: str) -> str:
    if meant := meant_date(name):
        return f"a date is written {{{meant}}}"
    if set(name.replace("Y", "y").replace("D", "d")) <= set("yMdHhms-_./:T"):
        return "a date is spelled with yyyy, MM, dd, HH and mm, such as {yyyy-MM-dd}"
    return ""
