"""A function in a Python file → its declaration, or what is wrong with it, by its syntax tree: nothing is run."""

from __future__ import annotations

import ast
from functools import lru_cache

import pyarrow as pa

from etl.contract.errors import FileLocation, Finding, nearest
from etl.types import TIMESTAMP
from etl.udf.aggregate_signature import read_aggregate
from etl.udf.annotations import ITERATORS, parse_text, read_annotation
from etl.udf.code_files import has_module
from etl.udf.declaration import CallingConvention, CodeFile, FunctionForm, UserFunction
from etl.udf.module_names import Names
from etl.udf.parameters import (
    FunctionDeclaration,
    SignatureError,
    build_parameter,
    parameter_annotation,
    parameters_of,
    read_result,
)

CODE = "bad-function"


class MissingFunctionError(SignatureError):
    """The file has no function of the name: the mistake stands where the name does."""


@lru_cache(maxsize=64)
def parse_code(code: CodeFile) -> tuple[ast.Module, Names]:
    """The syntax tree of a file and its names. Raises SyntaxError."""
    tree = ast.parse(code.text)
    return tree, Names.of(tree)


def read_function(given: FunctionDeclaration) -> UserFunction | Finding:
    """The function, or what is wrong with it, with its location in the Python file."""
    try:
        tree, names = parse_code(given.code)
        names.reads = 0  # the file is parsed once, and read again for each function and each check
        found = _read(given, names)
        _check_imports(tree, given.code)
        return found
    except (SyntaxError, ValueError) as error:
        return _make_finding(given, error)
    except (RecursionError, MemoryError):
        return _make_finding(given, SignatureError("the file is nested too deeply"))


def _make_finding(given: FunctionDeclaration, error: Exception) -> Finding:
    if isinstance(error, MissingFunctionError):
        return Finding(CODE, f"function {given.name!r}: {error}", hint=error.hint)
    if isinstance(error, SyntaxError):
        message, line, column, hint = f"the file is not Python: {error.msg}", error.lineno or 1, error.offset or 1, None
    else:
        node, hint = getattr(error, "node", None), getattr(error, "hint", None)
        message, line, column = str(error), getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
    location = FileLocation(given.file or given.code.path, line, max(column, 1), ("functions", given.name))
    return Finding(CODE, f"function {given.name!r}: {message}", hint=hint, location=location)


def _check_imports(tree: ast.Module, code: CodeFile) -> None:
    """Raise SignatureError for an import of what is not installed. Those inside functions and ``try`` are not checked."""
    for node in tree.body:
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""] if node.level == 0 else []
            if node.level and not code.package:
                raise SignatureError("a relative import needs a package", node, _ALONE)
        for name in names:
            if not has_module(name.split(".")[0]):
                raise SignatureError(f"there is no module {name!r}", node, f"install it; {_ALONE}")


_ALONE = "a file of functions is loaded alone: what it shares with others belongs into an installed package"


def _read(given: FunctionDeclaration, names: Names) -> UserFunction:
    node = names.functions.get(given.attribute)
    if node is not None:
        return _function(given, node, names)
    if given.attribute in names.classes:
        return read_aggregate(given, names.classes[given.attribute], names)
    known = [name for name in (*names.functions, *names.classes) if not name.startswith("_")]
    hint = nearest(given.attribute, known) or (f"the file has {', '.join(known[:10])}" if known else "the file has no function")
    raise MissingFunctionError(f"there is no function {given.attribute!r} in {given.code.path}", None, hint)


def _function(given: FunctionDeclaration, node: ast.FunctionDef | ast.AsyncFunctionDef, names: Names) -> UserFunction:
    if whole := _whole_events(given, node, names):
        return whole
    result = read_result(node, names)
    read = [(one, parameter_annotation(one, names), required) for one, required in parameters_of(node)]
    kinds = {found.kind for _, found, _ in read if found.kind != "values"} | ({result.kind} - {"values"})
    if len(kinds) > 1:
        raise SignatureError(f"the annotations mix arrays of {' and '.join(sorted(kinds))}", node, "use those of one library")
    kind: CallingConvention = kinds.pop() if kinds else "values"
    if kind != "values" and result.kind == "values":
        raise SignatureError("it takes arrays and returns a single value", node.returns, "annotate the array that it returns")
    if kind != "values" and not any(found.kind == kind for _, found, _ in read):
        raise SignatureError("it takes no array, so it cannot know for how many events", node, "give it an array")
    parameters = tuple(build_parameter(one.arg, found, kind, required) for one, found, required in read)
    assert result.type is not None
    form: FunctionForm = "table" if result.many else "scalar"
    return UserFunction(
        given.name, given.code, given.attribute, form, kind, parameters, result.type, given.timeout, line=node.lineno
    )  # fmt: skip


def _whole_events(given: FunctionDeclaration, node: ast.FunctionDef | ast.AsyncFunctionDef, names: Names) -> UserFunction | None:
    """A function of whole events, as dicts or as a record batch; None for others."""
    arguments = node.args.args
    first = arguments[0].annotation if arguments else None
    if first is not None and returns_several_events(first, names):
        return _read_keyed_function(given, node, names, "keyed", 2)
    if first is not None and is_event(first, names) and len(arguments) == _OF_TIMER:
        return _read_keyed_function(given, node, names, "timer", _OF_TIMER)
    if first is None or not (is_event(first, names) or names.full_name(first) == _BATCH):
        return None
    if isinstance(node, ast.AsyncFunctionDef) or len(parameters_of(node)) != 1:
        raise SignatureError("a function of whole events takes one argument", node)
    if is_event(first, names):
        multiplies = returns_several_events(node.returns, names)
        if multiplies is None:
            raise SignatureError("it takes an event and does not say that it returns events", node.returns or node, EVENT_HINT)
        form: FunctionForm = "events"
    else:
        if node.returns is None or names.full_name(node.returns) not in (_BATCH, "pyarrow.Table"):
            raise SignatureError("it takes a batch and does not return one", node.returns or node, "write -> pa.RecordBatch:")
        form, multiplies = "batches", True
    kind: CallingConvention = "values" if form == "events" else "arrow"
    return UserFunction(
        given.name, given.code, given.attribute, form, kind, (), pa.null(), given.timeout, multiplies=multiplies, line=node.lineno
    )


_OF_TIMER = 3
"""Parameters of a function of timers: key, state, time."""

_KEYED = {
    "keyed": "def {}(events: list[dict], state: State | None) -> tuple[list[dict], State | None]:",
    "timer": "def {}(key: dict, state: State, time: datetime) -> tuple[list[dict], State | None, datetime | None]:",
}
"""How functions of `keyed_python` are written."""


def _read_keyed_function(
    given: FunctionDeclaration, node: ast.FunctionDef | ast.AsyncFunctionDef, names: Names, form: FunctionForm, count: int
) -> UserFunction:
    """A function of the events of a key and its state, or of a key, its state and the time of a timer."""
    hint = f"write {_KEYED[form].format(node.name)}"
    returns = node.returns.slice if isinstance(node.returns, ast.Subscript) else None
    parts = returns.elts if isinstance(returns, ast.Tuple) else []
    taken = [one.annotation for one, _ in parameters_of(node)]
    if len(taken) != count or taken[1] is None or len(parts) not in (2, 3) or not returns_several_events(parts[0], names):
        what = "the events of a key" if form == "keyed" else "timers"
        raise SignatureError(f"a function of {what} takes and returns events and a state", node, hint)
    state, after = read_annotation(taken[1], names), read_annotation(parts[1], names)
    if form == "keyed" and not state.nullable:
        raise SignatureError("the state of a key is None at first", taken[1], hint)
    if state.kind != "values" or state.type is None or state.type != after.type:
        raise SignatureError("the state that it returns is of another type than the one it takes", parts[1], hint)
    if form == "timer" and (taken[2] is None or names.full_name(taken[2]) != _TIME):
        raise SignatureError("a function of timers gets the time as a datetime", taken[2] or node, hint)
    if len(parts) == len(_KEYED_RESULT) and read_annotation(parts[2], names).type not in (TIMESTAMP, pa.list_(TIMESTAMP)):
        raise SignatureError("the timers that it returns are not times", parts[2], "write datetime | None, or list[datetime]")
    return UserFunction(
        given.name, given.code, given.attribute, form, "values", (), pa.null(), given.timeout,
        state.type, state.class_name, sets_timers=len(parts) == len(_KEYED_RESULT), line=node.lineno,
    )  # fmt: skip


_KEYED_RESULT = ("events", "state", "timers")
_TIME = "datetime.datetime"
_BATCH = "pyarrow.RecordBatch"


EVENT_HINT = "a function of an event returns dict, dict | None, list[dict] or Iterator[dict]"


def is_event(node: ast.expr, names: Names) -> bool:
    """Whether an annotation is that of a whole event: ``dict`` or ``dict[str, Any]``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return is_event(parse_text(node), names)
    if isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
        is_any = len(parts) == 2 and names.full_name(parts[1]) in ("typing.Any", "object")
        return is_any and names.full_name(node.value) in _EVENTS
    return names.full_name(node) in _EVENTS


_EVENTS = ("dict", "typing.Dict", "typing.Mapping", "collections.abc.Mapping", "typing.MutableMapping")


def returns_several_events(node: ast.expr | None, names: Names) -> bool | None:
    """Whether the annotation of a result is that of several events; None if it is not that of events."""
    if node is None:
        return None
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return returns_several_events(parse_text(node), names)
    if is_event(node, names):
        return False
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        found = {returns_several_events(part, names) for part in (node.left, node.right) if not _is_none(part)}
        return None if None in found or not found else True in found
    if isinstance(node, ast.Subscript):
        name = names.full_name(node.value)
        part = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
        if name == "typing.Optional":
            return returns_several_events(part, names)
        return True if (name in ITERATORS or name in ("list", "typing.List")) and is_event(part, names) else None
    return None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
