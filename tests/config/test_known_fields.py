"""A law: whichever option of a component is wrong, the fields that lint goes on with are those of the right component."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from etl.api import Component, FrameSource, Source, Step
from etl.catalogue import Catalogue, installed, kind, type_name
from etl.config.checks.known_fields import Fields, output_fields, source_fields
from etl.config.document.parser import parse
from etl.config.options.candidates import TEXTS
from etl.config.options.faults import validator
from etl.config.options.variants import ComponentVariant, attributes, free_options, variants
from etl.reference import page

INCOMING = pa.schema([("message", pa.string()), ("n", pa.int64()), ("tags", pa.list_(pa.string()))])
COMPONENTS = [one for one in installed().components if issubclass(one, (Source, FrameSource, Step))]


def broken(component: type[Component], options: dict[str, Any], option: str) -> ComponentVariant | None:
    """What lint makes of the component when this option has an error."""
    catalogue = Catalogue((component,))
    schema = validator(catalogue)[1]["$defs"]
    family = "source" if issubclass(component, (Source, FrameSource)) else "step"
    made = variants(component, options, [(option,)], schema[f"{family}.{type_name(component)}"], schema)
    if not made:
        return None
    wrong = attributes(component, [option])
    return ComponentVariant(made[0], tuple(made[1:]), wrong, attributes(component, free_options(made, [(option,)])))


def fields_of(made: ComponentVariant) -> Fields:
    return output_fields(made, Fields(INCOMING), []) if isinstance(made.component, Step) else source_fields(made)


@pytest.mark.slow
@pytest.mark.parametrize("component", COMPONENTS, ids=lambda one: f"{kind(one)}-{type_name(one)}")
def test_fields_after_an_error_are_right_or_open(component: type[Component]) -> None:
    options = parse(page(component).example or "{}").value
    right = component.model_validate(options)
    names = set(fields_of(ComponentVariant(right)).schema.names)

    for option in [one.name for one in page(component).options if "." not in one.name]:
        if (made := broken(component, options, option)) is None:
            continue  # nothing is known then, and lint says nothing of fields
        found = fields_of(made)

        assert found.open or set(found.schema.names) == names, option
        assert not set(TEXTS) & set(found.schema.names), option


def test_a_filter_changes_no_fields_and_a_pattern_does() -> None:
    families = installed().families["step"]

    condition = broken(families["filter"], {"type": "filter"}, "where")
    patterns = broken(families["grok"], {"type": "grok"}, "patterns")

    assert condition is not None
    assert patterns is not None
    assert fields_of(condition) == Fields(INCOMING)
    assert fields_of(patterns).open
