"""The families of predicates: the table of contents of this package."""

from __future__ import annotations

from etl.rules.predicates.network import Network
from etl.rules.predicates.number import Number
from etl.rules.predicates.pattern import Pattern
from etl.rules.predicates.predicate import Predicate
from etl.rules.predicates.present import Present
from etl.rules.predicates.same_field import SameField
from etl.rules.predicates.sql import Sql
from etl.rules.predicates.text import Text
from etl.rules.predicates.time_part import TimePart

FAMILIES: tuple[type[Predicate], ...] = (Text, Pattern, Sql, Network, Number, Present, SameField, TimePart)
"""In the order in which `etl explain` shows them."""
