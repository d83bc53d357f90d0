"""The Python file that a name in `functions` means: a file beside the pipeline, or a module, found without importing it."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

from etl.udf.declaration import CodeFile

MAX_BYTES = 1 << 20
"""Bytes of a file: its text travels with the plan to every worker."""


MAX_NAME = 200
"""Characters of the name of a module: a folder has names of up to 255 bytes."""


class CodeFileError(ValueError):
    """A file or module that is not there or cannot be read."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def read_file(path: str, folder: Path) -> CodeFile:
    """The file at a path relative to the pipeline's folder. Raises CodeFileError."""
    try:
        found = folder / Path(path).expanduser()
    except RuntimeError as error:  # ~name of a user that this machine does not have
        raise CodeFileError(f"the file {path!r} cannot be read: {error}", "write the path without ~") from None
    return _read(found, path)


def read_module(name: str, folder: Path) -> CodeFile:
    """The module ``a.b``: in the pipeline's folder, else where Python finds modules. Raises CodeFileError."""
    parts = name.split(".")
    if len(name) > MAX_NAME or not all(part.isidentifier() for part in parts):
        raise CodeFileError(
            f"{name[:MAX_NAME]!r} is not the name of a module", "write names with dots between them: pkg.functions"
        )
    for path in (folder.joinpath(*parts).with_suffix(".py"), folder.joinpath(*parts, "__init__.py")):
        if path.is_file():
            return _read(path, str(path.relative_to(folder)))
    origin = _origin(parts)
    if origin is None:
        hint = f"a file is written with its ending: {parts[-1]}.py"
        raise CodeFileError(f"there is no module {name!r} beside the pipeline file or installed", hint)
    package = name if origin.name == "__init__.py" else name.rpartition(".")[0]
    return _read(origin, name, package)


def _origin(parts: list[str]) -> Path | None:
    """The file of a module. Packages on the way are not imported."""
    search: list[str] | None = [path for path in sys.path if path]
    origin = None
    for at in range(len(parts)):
        if search is None or not parts[at].isidentifier():
            return None
        spec = PathFinder.find_spec(parts[at] if at == 0 else ".".join(parts[: at + 1]), search)
        if spec is None:
            return None
        origin, search = spec.origin, list(spec.submodule_search_locations or []) or None
    return Path(origin) if origin and origin.endswith(".py") else None


def has_module(name: str) -> bool:
    """Whether Python finds a top-level module, without importing it."""
    if name in sys.builtin_module_names or name in sys.stdlib_module_names:
        return True
    return name.isidentifier() and PathFinder.find_spec(name, [path for path in sys.path if path]) is not None


def _read(path: Path, shown: str, package: str = "") -> CodeFile:
    try:
        if path.exists() and not path.is_file():
            raise CodeFileError(f"{shown!r} is not a file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a character that no path can have
        reason = getattr(error, "strerror", None) or error
        raise CodeFileError(f"the file {shown!r} cannot be read: {reason}", "the path is relative to the pipeline file") from None
    if len(data) > MAX_BYTES:
        raise CodeFileError(f"the file {shown!r} has more than 1 MiB", "put large parts into an installed package")
    try:
        return CodeFile(shown, data.decode("utf-8-sig").replace("\r\n", "\n"), package)
    except UnicodeDecodeError as error:
        raise CodeFileError(f"the file {shown!r} is not UTF-8 at byte {error.start}") from None
