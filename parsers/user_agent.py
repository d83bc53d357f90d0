"""The parser `user_agent`: the program, system and device of a web client."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import pyarrow as pa
from pydantic import Field

from etl.api import FieldName, Parsed, Parser, Schema
from etl.columns.user_agents import DETAILS, user_agent_rules
from parsers.common.distinct_lookup import DistinctLookup


class UserAgent(Parser):
    """Find program, system and device in the user agent of a web client.

    The fields are those of ECS: ``original`` (the text), ``name``, ``version``, ``device.name``, ``os.name``,
    ``os.version`` and ``os.full``, under ``target``. The rules are those of the uap-core project, in the version of
    the installed package ``ua-parser``. An unknown program or device is called ``Other``; an
    unknown version or system is null. No text fails, and a null one gives nulls. The rules read the first 2,048 characters. A
    distinct text is looked up once, in about 15 µs; 100,000 of them are cached.

    ```yaml
    type: user_agent
    field: user_agent.original
    ```
    """

    type: Literal["user_agent"] = "user_agent"
    field: FieldName = Field(default="user_agent.original", description="The field to parse.")
    target: FieldName = Field(default="user_agent", description="The object that gets the fields.")

    def parsed_fields(self) -> Schema:
        """The text and the six details."""
        return pa.schema([(f"{self.target}.{name}", pa.string()) for name in ("original", *DETAILS)])

    def compile(self) -> Callable[[pa.StringArray], Parsed]:
        """Look each text up."""
        lookup = _lookup()

        def parse(texts: pa.Array) -> Parsed:
            plain = texts.cast(pa.string())
            found = {f"{self.target}.{name}": column for name, column in lookup(plain).columns.items()}
            return Parsed({f"{self.target}.original": plain, **found})

        return parse


@lru_cache(maxsize=1)
def _lookup() -> DistinctLookup:
    """One for the process."""
    return DistinctLookup(pa.schema([(name, pa.string()) for name in DETAILS]), user_agent_rules())
