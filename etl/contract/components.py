"""The base class of components, and the entries by which packages list theirs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from etl.contract.lists import with_lists

type_name = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
"""What a component's ``type`` looks like (HOUSE_STYLE 10)."""


class Component(BaseModel):
    """A value that is one source, step or sink: its fields are its options, its docstring its documentation.

    Components are frozen and picklable; clients, files and compiled patterns are opened inside the method that
    uses them.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, populate_by_name=True, arbitrary_types_allowed=True
    )

    type: str

    @model_validator(mode="before")
    @classmethod
    def _single_values(cls, options: Any) -> Any:
        """Turn a single value into a list of one where an option is a list, also in nested options."""
        return with_lists(cls, options)


Family = Literal["source", "step", "sink", "table"]
"""The kind of a component: where it is used in a pipeline file."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A component in a package's ``COMPONENTS``, imported when a pipeline names it: checking a file stays quick however many
    components there are. ``address`` is ``module:Class``."""

    family: Family
    type: str
    address: str
