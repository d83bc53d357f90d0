"""Every family of predicates: its values are picklable, have words, and follow a renaming of fields."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from etl.rules.conditions.tree import FALSE
from etl.rules.predicates.families import FAMILIES
from etl.rules.predicates.network import Network
from etl.rules.predicates.number import Number
from etl.rules.predicates.pattern import Pattern
from etl.rules.predicates.predicate import LONGEST, Predicate
from etl.rules.predicates.present import Present
from etl.rules.predicates.same_field import SameField
from etl.rules.predicates.sql import Sql
from etl.rules.predicates.text import Text
from etl.rules.predicates.time_part import TimePart

EXAMPLES: tuple[Predicate, ...] = (
    Text("name", "contains", "x" * 100),
    Pattern("name", "a.*b"),
    Sql("name rlike 'a'", ("name",)),
    Network("name", "10.0.0.0/8"),
    Number("name", ">", 3),
    Present("name"),
    SameField("name", "equals", "other"),
    TimePart("name", "hour", 3),
)


def test_every_family_has_an_example() -> None:
    assert {type(one) for one in EXAMPLES} == set(FAMILIES), "each family has an example in EXAMPLES above"


@pytest.mark.parametrize("predicate", EXAMPLES, ids=lambda one: type(one).__name__)
def test_a_predicate_is_a_picklable_value_with_words(predicate: Predicate) -> None:
    assert pickle.loads(pickle.dumps(predicate)) == predicate
    assert len({predicate, pickle.loads(pickle.dumps(predicate))}) == 1
    assert "name" in predicate.describe()
    assert len(predicate.describe()) <= LONGEST + len("…")
    assert 0 < predicate.expected_share <= 1
    assert type(predicate).summarize([predicate]).startswith("1 ")


@pytest.mark.parametrize("predicate", [one for one in EXAMPLES if not isinstance(one, Sql)], ids=lambda one: type(one).__name__)
def test_a_predicate_follows_renamed_fields_and_is_false_without_its_field(predicate: Predicate) -> None:
    renamed = predicate.renamed({"name": "user.name", "other": "host.name"})

    assert renamed.field_names <= {"user.name", "host.name"}
    assert renamed.bind(pa.schema([("name", pa.string())])) == FALSE
