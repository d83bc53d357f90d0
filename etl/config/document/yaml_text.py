"""The value of a pipeline file → YAML."""

from __future__ import annotations

from typing import Any


def yaml_text(value: Any) -> str:
    """A pipeline file with this value: mappings that hold no others in one line."""
    import yaml

    return str(yaml.safe_dump(value, sort_keys=False, default_flow_style=None, allow_unicode=True, width=120))
