"""Parameters and results of functions and methods, by the syntax tree of their file."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from etl.udf.annotations import Annotation, AnnotationError, read_annotation
from etl.udf.declaration import DEFAULT_TIMEOUT, CallingConvention, CodeFile, Parameter
from etl.udf.module_names import Names


@dataclass(frozen=True)
class FunctionDeclaration:
    """A name of `functions` and the code that it means."""

    name: str
    code: CodeFile
    attribute: str
    timeout: timedelta = DEFAULT_TIMEOUT
    file: str = ""
    """The path of the code from the working folder, for messages; that of ``code`` by default."""


class SignatureError(ValueError):
    """What is wrong with a function, and the node of the file that is."""

    def __init__(self, message: str, node: ast.AST | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.node = node
        self.hint = hint


def read_result(node: ast.FunctionDef | ast.AsyncFunctionDef, names: Names) -> Annotation:
    if isinstance(node, ast.AsyncFunctionDef):
        raise SignatureError("an async function is not called here", node, "write def")
    if node.returns is None:
        raise SignatureError("it does not say what it returns", node, f"write def {node.name}(…) -> str:")
    result = read_annotation(node.returns, names)
    if result.type is None or pa.types.is_null(result.type):
        raise SignatureError(
            f"{ast.unparse(node.returns)!r} does not say the type of its values",
            node.returns,
            'write Annotated[pl.Series, "string"], with a type of Spark SQL',
        )
    return result


def parameters_of(node: ast.FunctionDef | ast.AsyncFunctionDef, *, skip: int = 0) -> list[tuple[ast.arg, bool]]:
    """The parameters, each with whether a call must give it."""
    given = [*node.args.posonlyargs, *node.args.args]
    for star, text in ((node.args.vararg, "*"), (node.args.kwarg, "**")):
        if star is not None:
            raise SignatureError(f"the parameter {text}{star.arg} stands for any number", star, "name each parameter")
    for one, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        if default is None:
            raise SignatureError(f"the parameter {one.arg!r} takes its argument by name only", one, "write it before the *")
    first_optional = len(given) - len(node.args.defaults)
    return [(one, at < first_optional) for at, one in enumerate(given)][skip:]


def parameter_annotation(one: ast.arg, names: Names) -> Annotation:
    if one.annotation is None:
        raise AnnotationError(f"the parameter {one.arg!r} has no annotation", one)
    found = read_annotation(one.annotation, names)
    if found.many:
        raise AnnotationError(f"the parameter {one.arg!r} is a series of values", one.annotation)
    return found


def build_parameter(name: str, found: Annotation, kind: CallingConvention, required: bool) -> Parameter:
    constant = kind != "values" and found.kind == "values"
    return Parameter(name, found.type, found.nullable, constant, required)
