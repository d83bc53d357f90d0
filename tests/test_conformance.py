"""Rules for every installed component, also of other packages (HOUSE_STYLE 28)."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from functools import cache
from typing import Any

import jsonschema
import pytest
import yaml
from pydantic import SecretStr, ValidationError
from running import ROOT

import connectors.components
import etl.steps.components
import parsers.components
from etl.api import Component, FrameSource, Sink, Source, Step
from etl.catalogue import Catalogue, family_of
from etl.config.document.parser import read
from etl.config.options.type_names import advice
from etl.contract.components import type_name

ENTRIES = (*etl.steps.components.COMPONENTS, *connectors.components.COMPONENTS, *parsers.components.COMPONENTS)
COMPONENTS = Catalogue(ENTRIES).components
EXAMPLE = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
SENTENCE = re.compile(r"[A-Z`].*\.", re.DOTALL)
SECRET_WORDS = ("password", "secret", "token", "credential", "api_key")

every_component = pytest.mark.parametrize("component", COMPONENTS, ids=lambda component: component.__name__)


def test_entries_agree_with_their_classes() -> None:
    assert [(e.family, e.type) for e in ENTRIES] == [(family_of(c), type_of(c)) for c in COMPONENTS]


def examples(component: type[Component]) -> list[dict[str, Any]]:
    return [read(text.encode()).value for text in EXAMPLE.findall(component.__doc__ or "")]


def values(component: type[Component]) -> list[Component]:
    return [component.model_validate(example) for example in examples(component)]


def type_of(component: type[Component]) -> str:
    return component.model_fields["type"].default


@cache
def schema_validator(component: type[Component]) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(component.model_json_schema())


def accepted_by_schema(component: type[Component], options: object) -> bool:
    return schema_validator(component).is_valid(options)


def accepted_by_construction(component: type[Component], options: object) -> bool:
    try:
        component.model_validate(options)
    except ValidationError:
        return False
    return True


def wrong_variants(component: type[Component], example: dict[str, Any]) -> list[dict[str, Any]]:
    """The example with an unknown key, without each required key, and with each option of an impossible type."""
    required = [field.alias or name for name, field in component.model_fields.items() if field.is_required()]
    options = [field.alias or name for name, field in component.model_fields.items()]
    return [
        {**example, "no_such_option": 1},
        *({key: value for key, value in example.items() if key != missing} for missing in required),
        *({**example, option: [[{"impossible": []}]]} for option in options),
    ]


@pytest.mark.parametrize("kind", [(Source, FrameSource), (Sink,), (Step,)], ids=["sources", "sinks", "steps"])
def test_type_names_are_unique(kind: tuple[type, ...]) -> None:
    names = [type_of(component) for component in COMPONENTS if issubclass(component, kind)]

    assert names
    assert sorted(names) == sorted(set(names))


@every_component
def test_type_names_are_in_house_style(component: type[Component]) -> None:
    assert type_name.fullmatch(type_of(component))
    assert component.model_json_schema()["properties"]["type"]["const"] == type_of(component)


@every_component
def test_lint_gives_no_advice_instead_of_a_component_that_there_is(component: type[Component]) -> None:
    assert advice(family_of(component), type_of(component)) is None, "remove the name from etl/config/options/type_names.py"


@every_component
def test_documentation_begins_with_one_sentence(component: type[Component]) -> None:
    first, _, following = (component.__doc__ or "").partition("\n")

    assert SENTENCE.fullmatch(first), first
    assert not following.strip(" ").strip() or following.startswith("\n"), "the first line stands alone"


@every_component
def test_every_option_is_described_by_a_sentence(component: type[Component]) -> None:
    described = {name: field.description or "" for name, field in component.model_fields.items() if name != "type"}

    assert [name for name, text in described.items() if not SENTENCE.fullmatch(text)] == []


@every_component
def test_the_example_is_one_component_and_constructs_it(component: type[Component]) -> None:
    assert examples(component), "the docstring has no ```yaml example"
    for example in examples(component):
        assert next(iter(example)) == "type"
        assert example["type"] == type_of(component)
        component.model_validate(example)


@every_component
def test_schema_and_construction_accept_the_same(component: type[Component]) -> None:
    for example in examples(component):
        assert accepted_by_schema(component, example)
        for variant in wrong_variants(component, example):
            assert accepted_by_schema(component, variant) == accepted_by_construction(component, variant), variant


@every_component
def test_unknown_options_are_refused(component: type[Component]) -> None:
    for example in examples(component):
        assert not accepted_by_construction(component, {**example, "no_such_option": 1})


@every_component
def test_components_are_frozen_picklable_values(component: type[Component]) -> None:
    for value in values(component):
        copy = pickle.loads(pickle.dumps(value))

        assert copy == value
        assert copy is not value
        assert component.model_validate(value.model_dump(by_alias=True)) == value
        with pytest.raises(ValidationError):
            value.type = "another"


@every_component
def test_options_named_like_secrets_are_secret(component: type[Component]) -> None:
    suspects = {
        name: field for name, field in component.model_fields.items() if any(word in name.lower() for word in SECRET_WORDS)
    }

    assert [name for name, field in suspects.items() if "SecretStr" not in str(field.annotation)] == []


@every_component
def test_secrets_are_not_printed(component: type[Component]) -> None:
    secret = "hunter2-" + component.__name__
    fields = {
        name: str(field.annotation) for name, field in component.model_fields.items() if "SecretStr" in str(field.annotation)
    }
    given = {
        name: {"password": SecretStr(secret)}
        if "dict" in kind
        else (SecretStr(secret),)
        if "tuple" in kind
        else SecretStr(secret)
        for name, kind in fields.items()
    }
    for value in values(component):
        message = value.model_copy(update=given)

        assert secret not in f"{message!r} {message} {message.model_dump()} {message.model_dump_json()}"


def test_importing_all_components_is_light() -> None:
    heavy = ["pyspark", "polars", "numpy", "pandas", "regex", "sqlglot"]
    code = f"import sys, etl.steps, connectors, parsers; print([m for m in {heavy} if m in sys.modules])"

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ})

    # pyarrow brings numpy along where it is installed
    assert set(yaml.safe_load(ran.stdout)) <= {"numpy"}


def test_components_log_below_the_logger_of_the_run() -> None:
    """The run shows only messages of the logger ``sluice`` and those below it (`etl.spark.reports.log_relay`)."""
    named = re.compile(r"getLogger\((.*?)\)")
    files = [path for folder in ("etl", "connectors", "parsers") for path in (ROOT / folder).rglob("*.py")]

    found = {f"{path.relative_to(ROOT)}: {name}" for path in files for name in named.findall(path.read_text())}

    assert [one for one in sorted(found) if not re.search(r': "(sluice(\.[a-z.]+)?|uvicorn)"$', one)] == []
    assert len(found) > 10
