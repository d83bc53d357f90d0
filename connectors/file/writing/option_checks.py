"""Checks of the options of a ``file`` sink."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pyarrow as pa

from connectors.file.writing.encodings import EXTENSIONS, Encoding, Format
from connectors.shared.date_patterns import check_dates, suggest_date
from connectors.shared.path_template import Template, parse_template
from etl.api import Finding, Schema, format_type, unknown_field

_FORMATS: dict[str, Format] = {".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".parquet": "parquet"}


_OPTIONS = re.compile(r"\?(?:region|endpoint_override|scheme)=.*")
"""Options of the connection to a store, as paths of the source ``file`` have them."""


def check_path(path: str) -> Iterator[Finding]:
    """Yield findings for unbalanced braces, paths that leave their folder, and folders without a slash."""
    pieces = parse_template(path).pieces
    if any("{" in literal or "}" in literal for literal in pieces[::2]):
        yield Finding("bad-path", f"{path!r} has a brace that is not closed or not opened", ("path",))
    if any("/../" in f"/{literal}/" for literal in pieces[2::2]):
        yield Finding("bad-path", "'..' after a brace would leave the folder before it", ("path",))
    if "://" in path and (options := _OPTIONS.search(path)):
        hint = "region and address of the store are those of the environment: AWS_REGION, AWS_ENDPOINT_URL"
        yield Finding("bad-path", f"{options[0]!r} would be part of a folder's name", ("path",), hint)
    if "\0" in path:
        yield Finding("bad-path", "a path cannot contain a NUL character", ("path",))
    elif len(pieces) > 1 and not pieces[0].rpartition("/")[0].strip("/"):
        yield Finding(
            "no-literal-prefix",
            f"{path!r} begins with a value; a literal folder before it limits where events can write",
            ("path",),
            f"write {'out/' + path.lstrip('/')!r}",
        )
    elif len(pieces) == 1 and not path.endswith("/") and os.path.isdir(os.path.expanduser(path)):
        yield Finding("path-is-folder", f"{path!r} is a folder", ("path",), f"write {path + '/'!r} for a folder of parts")


def check_placeholders(path: str, time_field: str | None, incoming: Schema) -> Iterator[Finding]:
    """Yield findings for unknown or nested fields, misspelt dates, and a time field that is not a time."""
    yield from check_dates(parse_template(path), "path")
    for name in parse_template(path).fields:
        at = path.index("{" + name + "}") + 1
        if name not in incoming.names:
            yield unknown_field(name, incoming, ("path",), at, _date_hint(name))
        elif pa.types.is_nested(incoming.field(name).type):
            yield Finding(
                "wrong-type",
                f"field {name!r} is {format_type(incoming.field(name).type)}, which cannot be part of a file name",
                ("path",),
                at=at,
            )
    if time_field is not None and time_field not in incoming.names:
        yield unknown_field(time_field, incoming, ("time_field",))
    elif time_field is not None and not is_time(incoming.field(time_field).type):
        type_ = incoming.field(time_field).type
        message = f"field {time_field!r} is {format_type(type_)}, but a date needs a timestamp"
        yield Finding("wrong-type", message, ("time_field",))


def check_bounded_fields(path: str, incoming: Schema) -> Iterator[Finding]:
    """Yield a warning for each field that may have any number of values, because each value creates a file or folder."""
    for name in dict.fromkeys(parse_template(path).fields):
        if name in incoming.names and not pa.types.is_boolean(incoming.field(name).type):
            message = f"each value of {name!r} creates a file or folder, and their number is not limited"
            hint = "add `max_paths: 1000` or as many as you expect; events of more paths become dead letters"
            yield Finding("unbounded-paths", message, ("path",), hint, "warning", at=path.index("{" + name + "}") + 1)


def check_format(path: str, encoding: Encoding) -> Iterator[Finding]:
    """Yield a warning if the path's extensions contradict the options."""
    plain = path
    for name, ending in EXTENSIONS.items():
        if ending and plain.endswith(ending):
            plain = plain.removesuffix(ending)
            if encoding.compression != name:
                message = f"{path!r} ends in {ending}, but compression is {encoding.compression}"
                hint = f"write 'compression: {name}', or remove it"
                yield Finding("extension-mismatch", message, ("compression",), hint, "warning")
    meant = _FORMATS.get(os.path.splitext(plain)[1])
    if meant and meant != encoding.format:
        message = f"{path!r} looks like {meant}, but format is {encoding.format}"
        yield Finding("extension-mismatch", message, ("format",), f"write 'format: {meant}', or another path", "warning")


def check_folders(template: Template) -> Iterator[Finding]:
    """Yield a finding for a file where the path needs a folder."""
    folder = template.prefix if template.is_folder or len(template.pieces) > 1 else os.path.dirname(template.path)
    folder = folder.rstrip("/")
    while folder and not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if folder and not os.path.isdir(folder):
        message = f"{folder!r} is a file, where the path needs a folder"
        yield Finding("folder-is-file", message, ("path",), "choose another path, or move the file away")


def check_single_file(path: str, encoding: Encoding, is_remote: bool, has_roll: bool) -> Iterator[Finding]:
    """Yield findings for what a single file cannot do."""
    hint = "end the path with '/' for a folder of parts"
    if encoding.format == "parquet":
        message = "a single Parquet file is written when the run ends, not while it runs"
        yield Finding("parquet-single-file", message, ("path",), hint, "warning")
    elif is_remote:
        yield Finding("cannot-append", f"{path!r} cannot grow: files of this file system cannot be appended to", ("path",), hint)
    if has_roll:
        yield Finding("unused-option", "a single file is never rolled", ("roll",), hint, "warning")


def is_time(type_: pa.DataType) -> bool:
    """Return whether dates can be taken from a type; null is one that only the run knows."""
    return pa.types.is_timestamp(type_) or pa.types.is_date(type_) or pa.types.is_null(type_)


def _date_hint(name: str) -> str:
    if meant := suggest_date(name):
        return f"a date is written {{{meant}}}"
    if set(name.replace("Y", "y").replace("D", "d")) <= set("yMdHhms-_./:T"):
        return "a date is spelled with yyyy, MM, dd, HH and mm, such as {yyyy-MM-dd}"
    return ""
