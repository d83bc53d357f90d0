"""Folders of data beside the code: recipes, schemas and samples, in a checkout and in an installed package."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parent


def folder(name: Literal["pipelines", "schemas", "samples"]) -> Path:
    """The checkout's folder of these files, else the one inside the package."""
    in_checkout = _CHECKOUT / name
    return in_checkout if (_CHECKOUT / "pyproject.toml").is_file() and in_checkout.is_dir() else _PACKAGE / "share" / name


def recipes() -> dict[str, Path]:
    """Name of a recipe in YAML → its pipeline file."""
    return {path.stem: path for path in sorted(folder("pipelines").glob("*.yaml")) if not path.stem.endswith("_test")}


def scripts() -> dict[str, Path]:
    """Name of a recipe in SQL → its script."""
    return {path.stem: path for path in sorted(folder("pipelines").glob("*.sql"))}


def schema_file() -> Path:
    """The JSON Schema of pipeline files, for editors."""
    return folder("schemas") / "pipeline.schema.json"
