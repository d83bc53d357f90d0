"""Operators of stateful steps, compiled once in a process: a worker runs the same step in each micro-batch."""

from __future__ import annotations

import pickle
from functools import lru_cache

from etl.api import Operator, Schema, StatefulStep

_MOST = 64
"""Operators that a process keeps."""


def operator_of(step: StatefulStep, incoming: Schema) -> Operator:
    """The operator of a step with these options and incoming fields."""
    return _load_operator(pickle.dumps((step, incoming)))


@lru_cache(_MOST)
def _load_operator(step: bytes) -> Operator:
    found, incoming = pickle.loads(step)
    operator: Operator = found.operator(incoming)
    return operator
