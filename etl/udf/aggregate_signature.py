"""An aggregate of the user by the syntax tree of its class: the types of its state, its values and its result."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from etl.udf.annotations import Annotation, describe, read_annotation
from etl.udf.declaration import UserFunction
from etl.udf.module_names import Names
from etl.udf.parameters import (
    FunctionDeclaration,
    SignatureError,
    build_parameter,
    parameter_annotation,
    parameters_of,
    read_result,
)

METHODS = ("create", "add", "merge", "finish")

_MAX_BASES = 20
"""Classes above one, of which it has methods."""


def read_aggregate(given: FunctionDeclaration, node: ast.ClassDef, names: Names) -> UserFunction:
    """The aggregate that a class is. Raises SignatureError for what cannot be called as one."""
    methods = _methods(node, names)
    for name in METHODS:
        if name not in methods:
            raise SignatureError(
                f"class {node.name!r} has no method {name!r}", node, "an aggregate has create, add, merge and finish"
            )
    _check_instance(node, methods)
    state, result = read_result(methods["create"], names), read_result(methods["finish"], names)
    if state.kind != "values" or result.kind != "values" or state.many or result.many:
        raise SignatureError("the state and the result of an aggregate are Python values", node)
    for name, count in (("create", 0), ("merge", 2), ("finish", 1)):
        found = len(_parameters(methods[name]))
        if found != count:
            raise SignatureError(f"{name} has {found} parameters beside self, and needs {count}", methods[name])
    read = [(one, parameter_annotation(one, names), needed) for one, needed in _parameters(methods["add"])[1:]]
    kinds = {found.kind for _, found, _ in read}
    if not read:
        raise SignatureError(
            "add takes the state and one value or more", methods["add"], "def add(self, state: State, x: float) -> State:"
        )
    if len(kinds) > 1:
        raise SignatureError("add takes values, or arrays of one library", methods["add"], "annotate all of them in one way")
    _check_states(methods, state, names)
    kind = kinds.pop()
    parameters = tuple(build_parameter(one.arg, found, kind, needed) for one, found, needed in read)
    assert result.type is not None
    return UserFunction(
        given.name, given.code, given.attribute, "aggregate", kind, parameters, result.type, given.timeout,
        state.type, state.class_name, state.nullable, line=node.lineno,
    )  # fmt: skip


def _methods(node: ast.ClassDef, names: Names) -> Mapping[str, ast.FunctionDef]:
    """The methods of a class and of those classes of the file that it is derived from, its own first."""
    found: dict[str, ast.FunctionDef] = {}
    waiting, visited = [node], set[str]()
    while waiting and len(visited) < _MAX_BASES:
        one = waiting.pop(0)
        visited.add(one.name)
        found = {part.name: part for part in one.body if isinstance(part, ast.FunctionDef)} | found
        bases = [names.classes.get(base.id) for base in one.bases if isinstance(base, ast.Name)]
        waiting += [base for base in bases if base is not None and base.name not in visited]
    return found


def _parameters(method: ast.FunctionDef) -> list[tuple[ast.arg, bool]]:
    """The parameters beside ``self``."""
    is_static = any(isinstance(one, ast.Name) and one.id == "staticmethod" for one in method.decorator_list)
    return parameters_of(method, skip=0 if is_static else 1)


def _check_instance(node: ast.ClassDef, methods: Mapping[str, ast.FunctionDef]) -> None:
    """Raise SignatureError where an instance cannot be made without arguments."""
    needed = [one.arg for one, needed in parameters_of(methods["__init__"], skip=1) if needed] if "__init__" in methods else []
    if needed:
        raise SignatureError(f"class {node.name!r} is made without arguments, and its __init__ needs {needed[0]!r}", node)


def _check_states(methods: Mapping[str, ast.FunctionDef], state: Annotation, names: Names) -> None:
    """Raise SignatureError for a state that a method takes or returns as another type than ``create`` gives."""
    for name in ("add", "merge", "finish"):
        method = methods[name]
        taken = [one.annotation for one, _ in _parameters(method)][: 2 if name == "merge" else 1]
        for annotation in [*taken, *([method.returns] if name != "finish" else [])]:
            if annotation is None:
                continue
            found = read_annotation(annotation, names)
            if found.type is not None and found.type != state.type:
                message = f"{name} has a state of {describe(found.type)}, and create gives {describe(state.type)}"
                raise SignatureError(message, annotation, "one type is the state of all methods")
