"""A function in a Python file → its declaration, or what is wrong with it, by its syntax tree: nothing is run."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache

import pyarrow as pa

from etl.contract.errors import FileLocation, Finding, nearest
from etl.types import TIMESTAMP
from etl.udf.annotations import Annotation, AnnotationError, read_annotation
from etl.udf.code_files import has_module
from etl.udf.declaration import DEFAULT_TIMEOUT, CallingConvention, CodeFile, FunctionForm, Parameter, UserFunction
from etl.udf.event_annotations import EVENT_HINT, is_event, read_events
from etl.udf.module_names import Names

CODE = "bad-function"

_METHODS = ("create", "add", "merge", "finish")
"""Methods of an aggregate."""


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


class MissingFunctionError(SignatureError):
    """The file has no function of the name: the mistake stands where the name does."""


@lru_cache(maxsize=64)
def parse_code(code: CodeFile) -> tuple[ast.Module, Names]:
    """The syntax tree of a file and its names. Raises SyntaxError."""
    tree = ast.parse(code.text)
    return tree, Names.of(tree)


def read_function(given: FunctionDeclaration) -> UserFunction | Finding:
    """The function, or what is wrong with it, with its place in the Python file."""
    try:
        tree, names = parse_code(given.code)
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
        return _aggregate(given, names.classes[given.attribute], names)
    known = [name for name in (*names.functions, *names.classes) if not name.startswith("_")]
    hint = nearest(given.attribute, known) or (f"the file has {', '.join(known[:10])}" if known else "the file has no function")
    raise MissingFunctionError(f"there is no function {given.attribute!r} in {given.code.path}", None, hint)


def _function(given: FunctionDeclaration, node: ast.FunctionDef | ast.AsyncFunctionDef, names: Names) -> UserFunction:
    if whole := _whole_events(given, node, names):
        return whole
    result = _result(node, names)
    read = [(one, _parameter_annotation(one, names), required) for one, required in _parameters(node)]
    kinds = {found.kind for _, found, _ in read if found.kind != "values"} | ({result.kind} - {"values"})
    if len(kinds) > 1:
        raise SignatureError(f"the annotations mix arrays of {' and '.join(sorted(kinds))}", node, "use those of one library")
    kind: CallingConvention = kinds.pop() if kinds else "values"
    if kind != "values" and result.kind == "values":
        raise SignatureError("it takes arrays and returns a single value", node.returns, "annotate the array that it returns")
    if kind != "values" and not any(found.kind == kind for _, found, _ in read):
        raise SignatureError("it takes no array, so it cannot know for how many events", node, "give it an array")
    parameters = tuple(_parameter(one.arg, found, kind, required) for one, found, required in read)
    assert result.type is not None
    form: FunctionForm = "table" if result.many else "scalar"
    return UserFunction(
        given.name, given.code, given.attribute, form, kind, parameters, result.type, given.timeout, line=node.lineno
    )  # fmt: skip


def _whole_events(given: FunctionDeclaration, node: ast.FunctionDef | ast.AsyncFunctionDef, names: Names) -> UserFunction | None:
    """A function of whole events, as dicts or as a record batch; None for others."""
    arguments = node.args.args
    first = arguments[0].annotation if arguments else None
    if first is not None and read_events(first, names):
        return _read_keyed_function(given, node, names, "keyed", 2)
    if first is not None and is_event(first, names) and len(arguments) == _OF_TIMER:
        return _read_keyed_function(given, node, names, "timer", _OF_TIMER)
    if first is None or not (is_event(first, names) or names.full_name(first) == _BATCH):
        return None
    if isinstance(node, ast.AsyncFunctionDef) or len(_parameters(node)) != 1:
        raise SignatureError("a function of whole events takes one argument", node)
    if is_event(first, names):
        multiplies = read_events(node.returns, names)
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
    taken = [one.annotation for one, _ in _parameters(node)]
    if len(taken) != count or taken[1] is None or len(parts) not in (2, 3) or not read_events(parts[0], names):
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
        raise SignatureError("the timers that it returns are no times", parts[2], "write datetime | None, or list[datetime]")
    return UserFunction(
        given.name, given.code, given.attribute, form, "values", (), pa.null(), given.timeout,
        state.type, state.class_name, sets_timers=len(parts) == len(_KEYED_RESULT), line=node.lineno,
    )  # fmt: skip


_KEYED_RESULT = ("events", "state", "timers")
_TIME = "datetime.datetime"
_BATCH = "pyarrow.RecordBatch"


def _result(node: ast.FunctionDef | ast.AsyncFunctionDef, names: Names) -> Annotation:
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


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef, *, skip: int = 0) -> list[tuple[ast.arg, bool]]:
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


def _parameter_annotation(one: ast.arg, names: Names) -> Annotation:
    if one.annotation is None:
        raise AnnotationError(f"the parameter {one.arg!r} has no annotation", one)
    found = read_annotation(one.annotation, names)
    if found.many:
        raise AnnotationError(f"the parameter {one.arg!r} is a series of values", one.annotation)
    return found


def _parameter(name: str, found: Annotation, kind: CallingConvention, required: bool) -> Parameter:
    constant = kind != "values" and found.kind == "values"
    return Parameter(name, found.type, found.nullable, constant, required)


# ── Aggregates ────────────────────────────────────────────────────────────────────────────────────


def _aggregate(given: FunctionDeclaration, node: ast.ClassDef, names: Names) -> UserFunction:
    methods = {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}
    for name in _METHODS:
        if name not in methods:
            raise SignatureError(
                f"class {node.name!r} has no method {name!r}", node, "an aggregate has create, add, merge and finish"
            )
    state, result = _result(methods["create"], names), _result(methods["finish"], names)
    if state.kind != "values" or result.kind != "values" or state.many or result.many:
        raise SignatureError("the state and the result of an aggregate are Python values", node)
    for name, count in (("create", 0), ("merge", 2), ("finish", 1)):
        found = len(_parameters(methods[name], skip=1))
        if found != count:
            raise SignatureError(f"{name} has {found} parameters beside self, and needs {count}", methods[name])
    read = [(one, _parameter_annotation(one, names), needed) for one, needed in _parameters(methods["add"], skip=2)]
    kinds = {found.kind for _, found, _ in read}
    if not read or len(read) > 1 or len(kinds) > 1:
        raise SignatureError(
            "add takes the state and one value", methods["add"], "def add(self, state: State, x: float) -> State:"
        )
    kind = kinds.pop()
    parameters = tuple(_parameter(one.arg, found, kind, needed) for one, found, needed in read)
    assert result.type is not None
    return UserFunction(
        given.name, given.code, given.attribute, "aggregate", kind, parameters, result.type, given.timeout,
        state.type, state.class_name, line=node.lineno,
    )  # fmt: skip
