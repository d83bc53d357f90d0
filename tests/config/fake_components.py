"""Small components for tests of the configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from etl.api import (
    ArrowStep,
    Duration,
    FieldName,
    Finding,
    Parser,
    Schema,
    Sink,
    Size,
    Source,
    TypeName,
    nearest,
    parse_type,
    with_fields,
)
from etl.catalogue import Catalogue


class Lines(Source):
    """Read lines.

    ```yaml
    type: lines
    path: x.log
    ```
    """

    type: Literal["lines"] = "lines"
    path: str = Field(description="Files to read.", min_length=1)
    max_files: int = Field(default=10, ge=1, le=100, description="Most files.")
    follow: bool = Field(default=True, description="Wait for more.")
    every: Duration = Field(default="1s", description="How often to look.")
    most: Size | None = Field(default=None, description="Most bytes.")
    columns: dict[FieldName, TypeName] = Field(default={}, description="Fields and their types.")

    def fields(self) -> Schema:
        extra = [pa.field(name, parse_type(type_)) for name, type_ in self.columns.items()]
        return pa.schema([pa.field("message", pa.string()), *extra])


class Match(Parser):
    """Take named groups."""

    type: Literal["match"] = "match"
    pattern: str = Field(description="A regular expression.")

    def check(self, incoming: Schema) -> Iterable[Finding]:
        yield from super().check(incoming)
        try:
            re.compile(self.pattern)
        except re.error as error:
            yield Finding("bad-pattern", error.msg, ("pattern",), at=error.pos)

    def parsed_fields(self) -> Schema:
        return pa.schema([pa.field(name, pa.string()) for name in re.findall(r"\?P<(\w+)>", self.pattern)])


class Pick(ArrowStep):
    """Keep events with a field."""

    type: Literal["pick"] = "pick"
    where: str = Field(description="A field.")
    names: list[str] = Field(default=[], description="More fields.", max_length=3)
    give: FieldName | None = Field(default=None, description="A new whole number.")

    def check(self, incoming: Schema) -> Iterable[Finding]:
        for at, name in enumerate(self.names):
            if name not in incoming.names:
                yield Finding("unknown-field", f"there is no field {name!r} here", ("names", at), nearest(name, incoming.names))
        if self.where not in incoming.names:
            yield Finding(
                "unknown-field", f"there is no field {self.where!r} here", ("where",), nearest(self.where, incoming.names)
            )
        elif self.where == "message":
            yield Finding("slow-pattern", "messages are long", ("where",), severity="warning")

    def fields(self, incoming: Schema) -> Schema:
        return with_fields(incoming, {self.give: pa.int32()}) if self.give else incoming


class Login(BaseModel):
    """Who."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    user: str = Field(description="Name.")
    password: SecretStr = Field(description="Password.", min_length=8)


class Out(Sink):
    """Write."""

    type: Literal["out"] = "out"
    path: str = Field(description="Where.")
    format: Literal["json", "csv"] = Field(default="json", description="How.")
    login: Login | None = Field(default=None, description="Who writes.")
    token: SecretStr | None = Field(default=None, description="Token.", max_length=12)

    def check(self, incoming: Schema) -> Iterable[Finding]:
        if self.path == "boom":
            raise RuntimeError("boom")
        if self.path == "unfinished":
            raise NotImplementedError
        return ()

    def targets(self) -> Iterable[str]:
        return (self.path,)


class Console(Sink):
    """Show."""

    type: Literal["console"] = "console"


CATALOGUE = Catalogue((Lines, Match, Pick, Out, Console))
