"""The value of a pipeline file → YAML."""

from __future__ import annotations

from typing import Any

import yaml

from etl.config.document.scalars import scalar_value


def yaml_text(value: Any) -> str:
    """A pipeline file with this value: mappings that hold no others in one line."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True, width=120)


_BREAKS = frozenset("\x85\u2028\u2029\ufeff")
"""Line breaks of YAML 1.1 and the byte order mark, which PyYAML escapes in double quotes only."""


class _Dumper(yaml.SafeDumper):
    """Writes texts in quotes that any reader of YAML, of version 1.1 or 1.2, would take for something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True  # `&id001` for a list that is given twice is nothing that a person writes


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "'" if not isinstance(scalar_value(text), str) else '"' if _BREAKS & set(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
