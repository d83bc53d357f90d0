"""What a pipeline is built of in Python: streams, the sinks they go to, and look-up tables. All are values that never change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, final

from etl.api import Component, Family, nearest
from etl.catalogue import installed
from etl.sdk.call_site import call_site
from etl.sdk.functions import as_function, functions_in
from etl.sdk.generated.sinks import Sinks
from etl.sdk.generated.sources import Sources
from etl.sdk.generated.steps import Steps
from etl.sdk.generated.tables import Tables
from etl.sdk.inspection import Inspectable
from etl.sdk.nodes import ComponentCall, Definition, NamedNode, Node, OutputNode, SourceNode, StepNode, TableNode, UnionNode
from etl.sdk.values import UNSET, Reference, plain


@final
class Stream(Steps, Sinks, Inspectable, Reference):
    """Events on their way: each step gives a new stream, and the old one stays as it is and may be used again."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def named(self, name: str, description: str | None = None) -> Stream:
        """This stream, or source, under a name: that of the file, of messages, and of what a run remembers."""
        if isinstance(self._node, SourceNode):
            if description is not None:
                raise TypeError("a source has no description")
            return Stream(replace(self._node, name=name))
        return Stream(NamedNode(self._node, name, call_site(("name", "description")), description))

    def union(self, *others: Stream) -> Stream:
        """The events of this stream and others, by field name."""
        return union(self, *others)

    def step(self, type_: str, /, **options: Any) -> Stream:
        """Any step by its type, such as one of a package of your own."""
        return self._step(type_, options)

    def to(self, type_: str, /, **options: Any) -> Output:
        """Deliver to any sink by its type, such as one of a package of your own."""
        return self._sink(type_, options)

    def _step(self, type_: str, arguments: Mapping[str, Any], positional: Iterable[str] = ()) -> Stream:
        return Stream(StepNode(make_part(type_, arguments, positional), self._node))

    def _join(self, type_: str, other: Stream, arguments: Mapping[str, Any]) -> Stream:
        """A step with two sides: this stream is the left one."""
        part = make_part(type_, {name: value for name, value in arguments.items() if name != "other"}, ("other",))
        if other._node is self._node:
            part = replace(part, options={**part.options, "right": self._node})
            return Stream(StepNode(part, UnionNode((self._node,), part.site)))
        return Stream(StepNode(part, UnionNode((self._node, other._node), part.site)))

    def _sink(self, type_: str, arguments: Mapping[str, Any], positional: Iterable[str] = ()) -> Output:
        return Output(OutputNode(make_part(type_, arguments, positional), self._node))

    def _definition(self) -> Definition:
        site = call_site()
        return Definition(None, site, streams=(self._node,))

    def __repr__(self) -> str:
        return f"<Stream {_shown(self._node)}>"

    def __dir__(self) -> list[str]:
        steps, sinks = installed().families["step"], installed().families["sink"]
        return sorted({*super().__dir__(), *steps, *(f"to_{name}" for name in sinks)})

    if not TYPE_CHECKING:  # else every misspelt call would pass the type checker

        def __getattr__(self, name: str) -> Callable[..., Any]:
            return _foreign(self, name, {"": ("step", self._step), "to_": ("sink", self._sink)})


@final
class Output(Inspectable):
    """A stream with the sink that it is delivered to: a part of a `pipeline`."""

    def __init__(self, node: OutputNode) -> None:
        self._output = node

    def named(self, name: str) -> Output:
        """This sink under a name."""
        return Output(replace(self._output, name=name))

    def _definition(self) -> Definition:
        return Definition(None, call_site(), outputs=(self._output,))

    def __repr__(self) -> str:
        return f"<Output {_shown(self._output.input)} → {self._output.name or self._output.part.type}>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            is_step = not name.startswith("_") and name in dir(Stream)
            hint = f": call it on the stream, before its to_{self._output.part.type}(…)" if is_step else ""
            raise AttributeError(f"a sink ends its stream, and has no {name!r}{hint}", name=name, obj=self)


@final
class DeadLetterOutput:
    """The sink of a pipeline's rejected events."""

    def __init__(self, part: ComponentCall) -> None:
        self.part = part


@final
class Table(Reference):
    """A look-up table, for `lookup(table=…)` and the tables of rules."""

    def __init__(self, node: TableNode) -> None:
        self._node = node

    def named(self, name: str) -> Table:
        """This table under a name."""
        return Table(replace(self._node, name=name))

    def __repr__(self) -> str:
        return f"<Table {self._node.name or self._node.part.type}>"


@final
class Read(Sources):
    """Sources: ``read.file(path=…)`` is a stream of the lines of files."""

    def source(self, type_: str, /, **options: Any) -> Stream:
        """Any source by its type, such as one of a package of your own."""
        return self._source(type_, options)

    def _source(self, type_: str, arguments: Mapping[str, Any], positional: Iterable[str] = ()) -> Stream:
        return Stream(SourceNode(make_part(type_, arguments, positional)))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *installed().families["source"]})

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]:
            return _foreign(self, name, {"": ("source", self._source)})


@final
class DeadLetters(Sinks):
    """The rejected events of a pipeline: ``dead_letters.to_file(path=…)`` among its outputs says where they go."""

    def to(self, type_: str, /, **options: Any) -> DeadLetterOutput:
        """Deliver to any sink by its type."""
        return self._sink(type_, options)

    def _sink(self, type_: str, arguments: Mapping[str, Any], positional: Iterable[str] = ()) -> Any:
        return DeadLetterOutput(make_part(type_, arguments, positional))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]:
            return _foreign(self, name, {"to_": ("sink", self._sink)})


@final
class TableReader(Tables):
    """Look-up tables: ``table.file(path=…, key=…)``."""

    def table(self, type_: str, /, **options: Any) -> Table:
        """Any table by its type, such as one of a package of your own."""
        return self._table(type_, options)

    def _table(self, type_: str, arguments: Mapping[str, Any], positional: Iterable[str] = ()) -> Table:
        return Table(TableNode(make_part(type_, arguments, positional)))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]:
            return _foreign(self, name, {"": ("table", self._table)})


def _shown(node: Node) -> str:
    """The steps that lead to a node, or the name of the stream, in a line."""
    types: list[str] = []
    while isinstance(node, StepNode) and len(types) < _MAX_SHOWN:
        types.append(node.part.type)
        node = node.input
    if isinstance(node, StepNode):
        begin = "…"
    elif isinstance(node, UnionNode):
        begin = f"union of {len(node.inputs)}"
    else:
        begin = node.name or (node.part.type if isinstance(node, SourceNode) else "stream")
    return " → ".join([begin, *types[::-1]])


_MAX_SHOWN = 12
"""Steps of a stream that its representation names."""

_FUNCTIONS = ("function", "on_timer")
"""The options of a step that call a function of the user, which may be given itself."""

read = Read()
table = TableReader()
dead_letters = DeadLetters()


def union(*streams: Stream) -> Stream:
    """The events of several streams as one, by field name; a field that one of them lacks is null there."""
    if not streams or not all(isinstance(one, Stream) for one in streams):
        raise TypeError("union() takes streams, such as union(read.file(path=…), read.kafka(…))")
    return streams[0] if len(streams) == 1 else Stream(UnionNode(tuple(one._node for one in streams), call_site()))


def make_part(type_: str, arguments: Mapping[str, Any], positional: Iterable[str] = ()) -> ComponentCall:
    """A component as it was called. Raises TypeError for values that no option has."""
    given = {name: value for name, value in arguments.items() if name != "self" and value is not UNSET}
    given |= {name: as_function(given[name]) for name in _FUNCTIONS if callable(given.get(name))}
    options = {_option(name): _with_nodes(plain(value, (_option(name),))) for name, value in given.items()}
    return ComponentCall(type_, options, call_site(tuple(positional)), tuple(functions_in(given)))


def _option(name: str) -> str:
    """``as`` for the argument ``as_``: Python has keywords that are names of options."""
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def _with_nodes(value: Any) -> Any:
    """The value with the nodes of the streams and tables that it names."""
    if isinstance(value, (Stream, Table)):
        return value._node
    if isinstance(value, dict):
        return {key: _with_nodes(one) for key, one in value.items()}
    return [_with_nodes(one) for one in value] if isinstance(value, list) else value


def _foreign(owner: object, name: str, kinds: Mapping[str, tuple[Family, Callable[..., Any]]]) -> Callable[..., Any]:
    """The method of a component that an installed package has brought. Raises AttributeError with the nearest name."""
    if name.startswith("_"):
        raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}")
    for prefix, (family, build) in kinds.items():
        members = installed().families[family]
        if name.startswith(prefix) and (type_ := name.removeprefix(prefix)) in members:
            return _method(name, type_, members[type_], build)
    hint = nearest(name, [one for one in dir(owner) if not one.startswith("_")])
    raise AttributeError(f"there is no {name!r} here{f'; {hint}' if hint else ''}", name=name, obj=owner)


def _method(name: str, type_: str, component: type[Component], build: Callable[..., Any]) -> Callable[..., Any]:
    def method(**options: Any) -> Any:
        return build(type_, options)

    method.__name__, method.__doc__ = name, component.__doc__
    return method
