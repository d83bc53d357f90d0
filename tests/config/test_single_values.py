"""A single value where a list is meant is a list of one: in the schema, in construction and in the reference alike."""

from __future__ import annotations

from typing import Any

import pytest

from etl.api import Component
from etl.catalogue import installed, kind, type_name
from etl.config.options.candidates import candidates
from etl.config.schema import option_schemas
from etl.contract.lists import with_lists
from etl.reference import page

COMPONENTS = installed().components


def lists(component: type[Component]) -> list[tuple[str, dict[str, Any]]]:
    """Options that are lists of texts or numbers, and their schemas."""
    found = option_schemas(component)
    return [(name, dict(one)) for name, one in found.items() if any(part.get("type") == "array" for part in _parts(dict(one)))]


def _parts(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [schema, *schema.get("anyOf", ())]


def _of_scalars(schema: dict[str, Any]) -> bool:
    items = [part.get("items", {}) for part in _parts(schema) if part.get("type") == "array"]
    return all(one.get("type") in ("string", "integer", "number") for item in items for one in item.get("anyOf", [item]))


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda one: f"{kind(one)}-{type_name(one)}")
def test_a_single_value_is_a_list_of_one(component: type[Component]) -> None:
    documented = {option.name: option.type for option in page(component).options}
    for name, schema in lists(component):
        if not _of_scalars(schema):
            continue
        values = [*candidates({"properties": {name: schema}, "required": [name]}, (name,), {})]
        values += [value for example in schema.get("examples", ()) if isinstance(example, list) for value in example]
        single = next(value for value in values if isinstance(value, (str, int, float)))

        assert with_lists(component, {name: single})[name] in ([single], single), name
        assert " or list of " in documented[name], f"{name}: {documented[name]}"


def test_lists_inside_options_are_meant_too() -> None:
    rules = installed().families["step"]["rules"]
    options = {"rules": [{"name": "a", "where": "true", "tags": "web"}], "files": "r.yml", "placeholders": {"admins": "root"}}

    made: Any = rules.model_validate(options)

    assert (made.files, made.rules[0].tags, made.placeholders) == (("r.yml",), ("web",), {"admins": ("root",)})


def test_truth_values_and_mappings_are_no_list_of_one() -> None:
    keep = installed().families["step"]["keep"]

    assert with_lists(keep, {"fields": True}) == {"fields": True}
    assert with_lists(keep, {"fields": {"a": 1}}) == {"fields": {"a": 1}}
