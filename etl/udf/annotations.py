"""Annotations of a Python file → Arrow types, without running the file."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from etl.types import TIMESTAMP, format_type, parse_type
from etl.udf.declaration import CallingConvention
from etl.udf.module_names import Names

_VALUES = {
    "str": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "bytes": pa.binary(),
    "datetime.datetime": TIMESTAMP,
    "datetime.date": pa.date32(),
}


_ARRAYS = {
    "StringArray": pa.string(),
    "BooleanArray": pa.bool_(),
    "Int8Array": pa.int8(),
    "Int16Array": pa.int16(),
    "Int32Array": pa.int32(),
    "Int64Array": pa.int64(),
    "FloatArray": pa.float32(),
    "DoubleArray": pa.float64(),
    "BinaryArray": pa.binary(),
    "Date32Array": pa.date32(),
    "TimestampArray": TIMESTAMP,
}


_NUMPY = {
    "bool_": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "datetime64": TIMESTAMP,
    "str_": pa.string(),
}


_UNTYPED: Mapping[str, CallingConvention] = {
    "pyarrow.Array": "arrow",
    "pyarrow.ListArray": "arrow",
    "pyarrow.StructArray": "arrow",
    "pyarrow.MapArray": "arrow",
    "pyarrow.Decimal128Array": "arrow",
    "polars.Series": "polars",
    "numpy.ndarray": "numpy",
    "typing.Any": "values",
    "object": "values",
}
"""Classes that do not name the type of their values."""


_MAX_DEPTH, _MAX_ANNOTATIONS = 20, 20_000
"""Depth of an annotation, and number of annotations of a file with those inside others, to which classes multiply them."""


ITERATORS = frozenset(
    f"{module}.{name}" for module in ("typing", "collections.abc") for name in ("Iterator", "Iterable", "Generator")
)


ACCEPTED = (
    "annotations are str, int, float, bool, bytes, datetime, date, list[…], dict[…, …], NamedTuple and dataclass; "
    "pa.StringArray, pa.Int64Array, pa.DoubleArray, pa.BooleanArray …; NDArray[np.float64] …; "
    'or Annotated[pa.Array, "array<string>"] with a type of Spark SQL, also for pl.Series'
)


class AnnotationError(ValueError):
    """An annotation that is missing or has no type here; ``node`` is where."""

    def __init__(self, message: str, node: ast.AST, hint: str = ACCEPTED) -> None:
        super().__init__(message)
        self.node = node
        self.hint = hint


class Annotation(NamedTuple):
    """What an annotation says."""

    kind: CallingConvention
    type: pa.DataType | None
    """None: any."""
    nullable: bool = False
    many: bool = False
    """Whether it is a series of values, such as what a generator gives."""
    class_name: str = ""
    """The class of the file, or ``tuple``, that a struct is."""


def read_annotation(node: ast.expr, names: Names, depth: int = 0) -> Annotation:
    """What an annotation says. Raises AnnotationError."""
    names.reads += 1
    if depth > _MAX_DEPTH or names.reads > _MAX_ANNOTATIONS:
        raise AnnotationError("the annotation is nested too deeply", node)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return read_annotation(parse_text(node), names, depth + 1)
    if isinstance(node, ast.Constant) and node.value is None:
        return Annotation("values", pa.null(), nullable=True)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _union([node.left, node.right], node, names, depth)
    if isinstance(node, ast.Subscript):
        return _subscript(node, names, depth)
    name = names.full_name(node)
    module, _, last = name.rpartition(".")
    if name in _VALUES:
        return Annotation("values", _VALUES[name])
    if module == "pyarrow" and last in _ARRAYS:
        return Annotation("arrow", _ARRAYS[last], nullable=True)
    if name in _UNTYPED:
        return Annotation(_UNTYPED[name], None, nullable=True)
    if isinstance(node, ast.Name) and node.id in names.classes:
        return Annotation("values", _struct(names.classes[node.id], names, depth), class_name=node.id)
    if isinstance(node, ast.Name) and node.id in names.aliases:
        return read_annotation(names.aliases[node.id], names, depth + 1)
    if name == "decimal.Decimal":
        raise AnnotationError("Decimal does not say its digits", node, 'write Annotated[Decimal, "decimal(18,2)"]')
    if name in ("list", "dict", "tuple") or name in ITERATORS:
        raise AnnotationError(f"{last or name} does not say of what", node, f"write for example {_EXAMPLES.get(last or name)}")
    raise AnnotationError(f"{ast.unparse(node)!r} is not a type here", node)


_EXAMPLES = {"list": "list[str]", "dict": "dict[str, int]", "tuple": "tuple[int, float]"} | dict.fromkeys(
    ("Iterator", "Iterable", "Generator"), "Iterator[str]"
)


def parse_text(node: ast.Constant) -> ast.expr:
    try:
        found = ast.parse(str(node.value), mode="eval").body
    except SyntaxError:
        raise AnnotationError(f"{node.value!r} is not a type here", node) from None
    for part in ast.walk(found):
        ast.copy_location(part, node)
    return found


def _union(parts: list[ast.expr], node: ast.expr, names: Names, depth: int) -> Annotation:
    """``X | None``."""
    others = [part for part in parts if not (isinstance(part, ast.Constant) and part.value is None)]
    if len(others) != 1 or len(parts) != 2:
        raise AnnotationError(f"{ast.unparse(node)!r} is several types", node, "one type, or one and None: str | None")
    return read_annotation(others[0], names, depth + 1)._replace(nullable=True)


def _subscript(node: ast.Subscript, names: Names, depth: int) -> Annotation:
    name = names.full_name(node.value)
    parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name in ("typing.Optional", "typing.Union"):
        none = [ast.Constant(None)] if name.endswith("Optional") else []
        return _union([*parts, *none], node, names, depth)
    if name in ("typing.Annotated", "typing_extensions.Annotated"):
        return _read_annotated(parts, node, names, depth)
    if name in ("numpy.typing.NDArray", "NDArray") and len(parts) == 1:
        type_ = _NUMPY.get(names.full_name(parts[0]).removeprefix("numpy."))
        if type_ is None:
            raise AnnotationError(f"{ast.unparse(node)!r} is not a type here", node, f"one of {', '.join(_NUMPY)}")
        return Annotation("numpy", type_)
    inner = [read_annotation(part, names, depth + 1) for part in parts if not _is_none(part, name)]
    if name in ("list", "typing.List", "typing.Sequence", "collections.abc.Sequence") and len(inner) == 1:
        return Annotation("values", pa.list_(_value_type(inner[0], node)))
    if name in ("dict", "typing.Dict", "typing.Mapping", "collections.abc.Mapping") and len(inner) == 2:
        return Annotation("values", pa.map_(_value_type(inner[0], node), _value_type(inner[1], node)))
    if name in ("tuple", "typing.Tuple") and inner:
        members = [(f"_{number}", _value_type(one, node)) for number, one in enumerate(inner, 1)]
        return Annotation("values", pa.struct(members), class_name="tuple")
    if name in ITERATORS and inner:
        return Annotation("values", pa.list_(_value_type(inner[0], node)), many=True)
    raise AnnotationError(f"{ast.unparse(node)!r} is not a type here", node)


def _is_none(part: ast.expr, name: str) -> bool:
    """Whether it is what ``Generator[str, None, None]`` says beside its values."""
    return name in ITERATORS and isinstance(part, ast.Constant) and part.value is None


def _read_annotated(parts: list[ast.expr], node: ast.expr, names: Names, depth: int) -> Annotation:
    """``Annotated[pa.Array, "array<string>"]``."""
    text = parts[1].value if len(parts) == 2 and isinstance(parts[1], ast.Constant) else None
    if not isinstance(text, str):
        raise AnnotationError(f"{ast.unparse(node)!r} names no type", node, 'write Annotated[pa.Array, "array<string>"]')
    try:
        type_ = parse_type(text)
    except ValueError as error:
        raise AnnotationError(str(error), parts[1], "types are those of Spark SQL") from None
    if names.full_name(parts[0]) == "decimal.Decimal":
        return Annotation("values", type_)
    return read_annotation(parts[0], names, depth + 1)._replace(type=type_)


def _value_type(inner: Annotation, node: ast.expr) -> pa.DataType:
    if inner.kind != "values" or inner.type is None:
        raise AnnotationError(f"{ast.unparse(node)!r} is not a type here", node)
    return inner.type


def _struct(node: ast.ClassDef, names: Names, depth: int) -> pa.DataType:
    """The members of a NamedTuple, TypedDict or dataclass."""
    bases = {names.full_name(base).rpartition(".")[2] for base in node.bases}
    marks = {names.full_name(one.func if isinstance(one, ast.Call) else one).rpartition(".")[2] for one in node.decorator_list}
    if not (bases & {"NamedTuple", "TypedDict"} or "dataclass" in marks):
        raise AnnotationError(
            f"class {node.name!r} is not a NamedTuple, TypedDict or dataclass", node, "its members say the type of each field"
        )
    members = [part for part in node.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)]
    if not members:
        raise AnnotationError(f"class {node.name!r} has no members", node)
    found = [(one.target.id, _value_type(read_annotation(one.annotation, names, depth + 1), one.annotation)) for one in members]  # type: ignore[union-attr]
    return pa.struct(found)


def describe(type_: pa.DataType | None) -> str:
    """A type in words."""
    if type_ is None:
        return "any value"
    return "a text" if type_ == pa.string() else format_type(type_)
