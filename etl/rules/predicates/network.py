"""Addresses in networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from etl.api import Schema
from etl.rules.conditions.tree import FALSE, Condition, Leaf, any_of
from etl.rules.predicates.predicate import SigmaBuilder
from etl.rules.predicates.text_predicate import TextPredicate
from etl.rules.wording import count_noun

if TYPE_CHECKING:
    import pyarrow as pa

    from etl.columns.texts import Texts
    from etl.rules.engine.deciders import TextFinder


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
        return Leaf(self) if self.field in schema.names else FALSE

    @property
    def words(self) -> str:
        """Such as ``ip in 10.0.0.0/8``."""
        return f"{self.field} in {self.network}"

    def finder(self) -> TextFinder:
        """All networks of a field are found together."""
        return NetworkFinder

    @staticmethod
    def summarize(predicates: Sequence[Network]) -> str:
        """By binary search."""
        return f"{count_noun(len(predicates), 'network')} in sorted bounds"


class NetworkFinder:
    """The networks of one field, sorted by their bounds, so that one search finds all networks around an address."""

    def __init__(self, predicates: Sequence[tuple[int, Network]]) -> None:
        import ipaddress

        import numpy as np

        parsed = [(number, ipaddress.ip_network(one.network, strict=False)) for number, one in predicates]
        self._sixes = [(number, network) for number, network in parsed if network.version == 6]
        fours = [(number, int(network[0]), int(network[-1]) + 1) for number, network in parsed if network.version == 4]
        starts = sorted({bound for _, *ends in fours for bound in ends})
        self._bounds = np.array(starts, np.int64)
        self._inside = [[number for number, low, high in fours if low <= start < high] for start in starts]

    def find(self, array: pa.Array, texts: Texts) -> list[tuple[int, Any]]:
        """Numbers of predicates, each with the indexes of the texts for which it holds (int64[m])."""
        import numpy as np

        from etl.columns.ip_kernel import parse_ipv4

        address = np.empty(len(texts.address), np.int64)
        parse_ipv4(texts.address, texts.length, address)
        piece = np.searchsorted(self._bounds, address, "right") - 1
        pieces = np.unique(piece[(piece >= 0) & (address >= 0)]).tolist()
        found = [(number, np.flatnonzero(piece == at)) for at in pieces for number in self._inside[at]]
        return found + self._find_six(array, texts) if self._sixes else found

    def _find_six(self, array: pa.Array, texts: Texts) -> list[tuple[int, Any]]:
        """IPv6 by `ipaddress`, each text once."""
        import ipaddress

        import numpy as np

        from etl.columns.texts import owned_array, taken

        rows = np.flatnonzero(texts.contains_byte(ord(":")))
        addresses: list[Any] = []
        for text in owned_array(taken(array, rows)).to_pylist():
            try:
                addresses.append(ipaddress.ip_address(text))
            except ValueError:
                addresses.append(None)
        inside = [(number, [one is not None and one in network for one in addresses]) for number, network in self._sixes]
        return [(number, rows[np.array(mask, bool)]) for number, mask in inside]
