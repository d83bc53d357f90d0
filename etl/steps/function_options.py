"""Options of steps that call a function of the user by its name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import pyarrow as pa
from pydantic import Field, PrivateAttr

from etl.api import FieldName, Finding, Step, TypeName, parse_type
from etl.udf.declaration import FunctionForm, Functions, UserFunction


class FunctionStep(Step):
    """A step that calls one function of `functions`, which gives or changes the fields of the option `fields`."""

    function: str = Field(description="The function, as `functions` of the file names it.", examples=["score"])
    fields_given: Mapping[FieldName, TypeName] = Field(
        default={},
        alias="fields",
        description="Fields that the function gives or changes, with their types in Spark SQL.",
        examples=[{"score": "double"}],
    )

    _function: UserFunction | None = PrivateAttr(default=None)

    def named_functions(self) -> Mapping[tuple[str | int, ...], str]:
        """Path of an option → the function that it names."""
        return {("function",): self.function}

    def with_functions(self, functions: Functions) -> Self:
        """This step with its function."""
        step = self.model_copy()
        step._function = functions.get(self.function.lower())
        return step

    @property
    def declared_function(self) -> UserFunction | None:
        """The function, None before it is known."""
        return self._function

    @property
    def functions(self) -> Sequence[UserFunction]:
        """All functions that it calls, once they are known."""
        return () if self._function is None else (self._function,)

    @property
    def result_types(self) -> dict[str, pa.DataType]:
        """The fields that the function gives or changes."""
        return {name: parse_type(type_) for name, type_ in self.fields_given.items()}

    def check_form(self, forms: tuple[FunctionForm, ...], what: str, hint: str) -> Iterable[Finding]:
        """A function that is not called in one of these forms."""
        function = self._function
        if function is not None and not function.is_broken and function.form not in forms:
            yield Finding("bad-function", f"{function.name}() is not a function of {what}", ("function",), hint)
