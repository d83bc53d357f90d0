"""The processor ``foreach``: another processor for each item of a list, as expressions on the whole list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from etl.migration.draft import NoCounterpartError
from etl.migration.ingest.field_processors import AUTO, convert_value
from etl.migration.ingest.function_processors import ELEMENT_FUNCTIONS
from etl.migration.ingest.options import unread_options
from etl.migration.ingest.painless.expressions import Expressions
from etl.migration.ingest.painless.parser import parse_condition
from etl.migration.ingest.painless.sql_methods import appended
from etl.migration.ingest.processor import Processor, as_list, static_name
from etl.migration.values import (
    FALSE,
    TEXT,
    TRUE,
    TRUTH,
    Value,
    as_type,
    both,
    choose,
    is_null,
    negation,
    text_value,
)

ELEMENT = "_ingest._value"
"""The item of the list, in options and conditions of the processor in the loop."""


def foreach(one: Processor) -> None:
    """Run a processor on each item: what changes the items, appends them to a list, or sets a field to the last of them."""
    ((name, options),) = one.need("processor").items()
    source = one.source()
    if source is None:
        return
    if not source.is_array:
        raise NoCounterpartError(
            f"{one.field_name()} is no list here, but {source.type}: `split` makes lists, and --sample shows which members of "
            "JSON are"
        )
    for option in (*unread_options(str(name), options), *(["on_failure"] if options.get("on_failure") else [])):
        one.leave_option(f"processor.{name}.{option}", "an option without a counterpart in a loop, which runs without it")
    loop = _Loop(one, str(name), options, source)
    if name == "append":
        loop.append()
    elif loop.target == ELEMENT:
        loop.change()
    else:
        loop.set_last()


@dataclass
class _Loop:
    one: Processor
    name: str
    options: Mapping[str, Any]
    source: Value
    """The list."""

    def __post_init__(self) -> None:
        self._variable = next(name for name in ("x", "item", "element", "_x") if name not in self.one.draft.types)
        self._item = Value(self._variable, self.source.type[6:-1], self.source.reads)
        self._inner = replace(
            self.one, name=self.name, options=self.options, constants={**self.one.constants, ELEMENT: self._item}
        )
        self._where = self._condition()

    @property
    def target(self) -> str:
        """The field that the processor sets."""
        name = self.options.get("target_field") or self.options.get("field", "")
        if str(name).startswith(f"{ELEMENT}.") or str(self.options.get("field")).startswith(f"{ELEMENT}."):
            raise NoCounterpartError("members of objects in a list are no fields here; a step `python` can change the list")
        return str(name)

    def append(self) -> None:
        """Append a value of each item to another list."""
        target = self._inner.field_name()
        values = as_list(self.options.get("value", self.options.get("copy_from")))
        if len(values) != 1:
            raise NoCounterpartError("a loop that appends several values for each item; write one loop for each of them")
        value = self._item if "value" not in self.options and values == [ELEMENT] else self._inner.template(values[0])
        before = self.one.draft.field(target)
        items = self._of_each(self._filtered(), value)
        self.one.draft.set(
            {target: choose(self.one.where, appended(before, items, self.options.get("allow_duplicates", True)), before)}
        )

    def change(self) -> None:
        """Change the items in place."""
        value = self._value()
        self._handle_failures(value)
        changed = self._of_each(self.source, choose(self._where, value, self._item))
        self.one.draft.set({self.one.field_name(): choose(self.one.where, changed, self.source)})

    def set_last(self) -> None:
        """Set a field to the value of the last item, or of the first if the field is not to be replaced."""
        target = static_name(self.target)
        value = self._value()
        self._handle_failures(value)
        items = self._of_each(self._filtered(), value)
        is_first = self.options.get("override", True) is False
        found = Value(f"get({items.sql}, {0 if is_first else f'size({items.sql}) - 1'})", items.type[6:-1], items.reads)
        before = self.one.draft.field(target)
        where = both(self.one.where, negation(is_null(found)))
        if is_first and not before.is_null:
            where = both(where, is_null(before))
        self.one.draft.set({target: choose(where, found, before)})

    def _condition(self) -> Value | None:
        """Where the processor runs, as a condition on the item."""
        text = self.options.get("if")
        if isinstance(text, dict):
            text = text.get("source", "")
        if text is None or isinstance(text, bool):
            return FALSE if text is False else None
        evaluator = Expressions(self.one.draft)
        evaluator.fields[ELEMENT] = self._item
        return evaluator.condition(parse_condition(str(text)))

    def _value(self) -> Value:
        """What the processor makes of the item."""
        if self.name == "set":
            if "copy_from" in self.options:
                name = self.options["copy_from"]
                return self._item if name == ELEMENT else self.one.draft.field(static_name(name))
            return self._inner.template(self._inner.need("value"))
        if self.options.get("field") != ELEMENT:
            raise NoCounterpartError(f"a loop with {self.name} of another field than {ELEMENT}; write it without the loop")
        if self.name == "convert":
            if str(self.options.get("type")).lower() == "auto" and self._item.type == TEXT:
                self.one.leave_option("processor.convert.type", AUTO)
            return convert_value(self._inner, self._item)
        if self.name in ELEMENT_FUNCTIONS:
            return ELEMENT_FUNCTIONS[self.name](self._inner, as_type(self._item, TEXT))
        raise NoCounterpartError(
            f"a loop with {self.name}; expressions on arrays may do it, transform(tags, x -> lower(x)), or a step `python`"
        )

    def _handle_failures(self, value: Value) -> None:
        """Import what runs where an item cannot be converted."""
        one = self.one
        if self.name != "convert" or (value.type == TEXT and str(self.options.get("type")).lower() != "ip"):
            return
        if one.is_fatal and not self.options.get("ignore_failure"):
            one.draft.comment("foreach: items that cannot be converted are null; in Elasticsearch the event fails")
        if one.is_fatal or self.options.get("ignore_failure"):
            return
        fails = both(self._where, both(negation(is_null(self._item)), is_null(value))) or TRUE
        found = Value(f"exists({self.source.sql}, {self._variable} -> {fails.sql})", TRUTH, self.source.reads | fails.reads)
        one.failed(found)

    def _filtered(self) -> Value:
        """The items for which the processor runs."""
        if self._where is None:
            return self.source
        where = self._where.sql
        return Value(
            f"filter({self.source.sql}, {self._variable} -> {where})", self.source.type, self.source.reads | self._where.reads
        )

    def _of_each(self, items: Value, value: Value) -> Value:
        """The list of a value of each item."""
        if value.sql == self._variable:
            return items
        if value.is_null:
            value = text_value("")
        return Value(
            f"transform({items.sql}, {self._variable} -> {value.sql})", f"array<{value.type}>", items.reads | value.reads
        )
