"""Types of the options of processors; what has another type is refused before a processor reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from etl.migration.draft import NoCounterpartError


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


_COMMON = frozenset(["if", "tag", "description", "on_failure", "ignore_failure", "ignore_missing"])
_TEXT_OF_FIELD = "field target_field"
_READ: Mapping[str, str] = {
    "append": "field value copy_from allow_duplicates media_type ignore_empty_values",
    "community_id": "source_ip destination_ip source_port destination_port transport target_field",
    "convert": "field target_field type",
    "csv": "field target_fields separator quote trim empty_value",
    "date": "field target_field formats timezone output_format locale",
    "dissect": "field pattern append_separator",
    "dot_expander": "field path override",
    "drop": "",
    "fail": "message",
    "fingerprint": "fields target_field salt method",
    "foreach": "field processor",
    "grok": "field patterns pattern_definitions ecs_compatibility keep_empty_captures",
    "gsub": "field target_field pattern replacement",
    "join": "field target_field separator",
    "json": "field target_field add_to_root allow_duplicate_keys strict_json_parsing keep_rest",
    "kv": "field field_split value_split target_field include_keys exclude_keys prefix trim_key trim_value strip_brackets",
    "network_direction": "source_ip destination_ip target_field internal_networks internal_networks_field",
    "pipeline": "name ignore_missing_pipeline",
    "registered_domain": "field target_field",
    "remove": "field keep",
    "rename": "field target_field override",
    "script": "lang source inline id params",
    "set": "field value copy_from override ignore_empty_value media_type",
    "sort": "field target_field order",
    "split": "field target_field separator preserve_trailing",
    "uri_parts": "field target_field keep_original remove_if_successful",
    "user_agent": "field target_field",
    **dict.fromkeys(("bytes", "html_strip", "lowercase", "trim", "uppercase", "urldecode"), _TEXT_OF_FIELD),
}
"""Options of each processor that its import reads, or that change nothing here."""


def unread_options(processor: str, options: Mapping[str, Any]) -> list[str]:
    """The options of a processor that its import does not read."""
    if processor not in _READ:
        return []
    return [name for name in options if name not in _COMMON and name not in _READ[processor].split()]


def checked_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options that are set. Raises NoCounterpartError for the first that has another type than the processors read."""
    given = {name: value for name, value in options.items() if value is not None or name == "value"}
    for name, value in given.items():
        what, fits = OPTION_TYPES.get(name, ("", None))
        if fits is not None and not fits(value):
            raise NoCounterpartError(f"the option {name!r} is {str(value)[:40]!r}, and has to be {what}")
    return given
