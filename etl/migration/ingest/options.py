"""Types of the options of processors; what has another type is refused before a processor reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from etl.migration.draft import NotCarriedError


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(one, str) for one in value))


def _is_processor(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and all(isinstance(one, dict) for one in value.values())


def _maps_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for pair in value.items() for one in pair)


_TEXT = ("a text", _is_text)
_TEXTS = ("a text or a list of texts", _are_texts)

OPTION_TYPES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("target_field", "copy_from", "prefix", "separator", "field_split", "value_split", "replacement"), _TEXT),
    **dict.fromkeys(("pattern", "append_separator", "quote", "salt", "method", "order", "timezone", "locale"), _TEXT),
    **dict.fromkeys(("source_ip", "destination_ip", "source_port", "destination_port", "transport"), _TEXT),
    **dict.fromkeys(("field", "fields", "patterns", "formats", "target_fields", "include_keys", "exclude_keys", "keep"), _TEXTS),
    "pattern_definitions": ("names with their patterns", _maps_texts),
    "params": ("a mapping", lambda value: isinstance(value, dict)),
    "processor": ("a processor: a mapping with one key, its name", _is_processor),
    "on_failure": ("a list of processors", lambda value: isinstance(value, list)),
}


def checked_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options that are set. Raises NotCarriedError for the first that has another type than the processors read."""
    given = {name: value for name, value in options.items() if value is not None or name == "value"}
    for name, value in given.items():
        what, fits = OPTION_TYPES.get(name, ("", None))
        if fits is not None and not fits(value):
            raise NotCarriedError(f"the option {name!r} is {str(value)[:40]!r}, and has to be {what}")
    return given
