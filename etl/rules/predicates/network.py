"""Addresses in networks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from etl.api import Schema
from etl.rules.conditions.column_types import has_field
from etl.rules.conditions.tree import FALSE, Condition, Leaf, any_of
from etl.rules.predicates.predicate import SigmaBuilder
from etl.rules.predicates.text_predicate import TextPredicate
from etl.rules.wording import count_noun

if TYPE_CHECKING:
    import pyarrow as pa

    from etl.columns.texts import Texts
    from etl.rules.engine.evaluators import TextFinder


def _sigma_cidr(field: str, value: Any) -> Condition:
    return Leaf(Network(field, str(value.network)))


def _sql_ip_in(field: str, texts: Sequence[str]) -> Condition | None:
    return any_of(Leaf(Network(field, text)) for text in texts)


@dataclass(frozen=True, slots=True)
class Network(TextPredicate):
    """A text is an address in the network (``10.0.0.0/8``)."""

    sigma_types: ClassVar[Mapping[str, SigmaBuilder]] = {"SigmaCIDRExpression": _sigma_cidr}
    sql_functions: ClassVar[Mapping[str, Any]] = {"ip_in": _sql_ip_in}

    field: str
    network: str

    def bind(self, schema: Schema) -> Condition:
        """On any type of column."""
        return Leaf(self) if has_field(schema, self.field) else FALSE

    @property
    def words(self) -> str:
        """Such as ``ip in 10.0.0.0/8``."""
        return f"{self.field} in {self.network}"

    def make_finder(self) -> TextFinder:
        """All networks of a field are found together."""
        return NetworkFinder

    @staticmethod
    def summarize(predicates: Sequence[Network]) -> str:
        """By binary search."""
        return f"{count_noun(len(predicates), 'network')} in sorted bounds"


class NetworkFinder:
    """Finds the texts of one field that are addresses in networks."""

    def __init__(self, predicates: Sequence[tuple[int, Network]]) -> None:
        from ipaddress import ip_network

        from etl.columns.ip_networks import NetworkSet

        self._numbers = [number for number, _ in predicates]
        self._networks = NetworkSet([ip_network(one.network, strict=False) for _, one in predicates])

    def find(self, array: pa.Array, texts: Texts) -> Iterator[tuple[int, Any]]:
        """Numbers of predicates, each with the indexes of the texts for which it holds (int64[m])."""
        return ((self._numbers[number], indexes) for number, indexes in self._networks.find(texts))
