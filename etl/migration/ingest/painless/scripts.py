"""Scripts of Painless → the fields that they set.

A script is executed with expressions in place of values: a field that a branch sets becomes a choice between its new value and
what it was, and one step sets all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from etl.migration.draft import NoCounterpartError, clean_name
from etl.migration.ingest.painless import tree
from etl.migration.ingest.painless.expressions import MAX_ROUNDS, Expressions
from etl.migration.ingest.painless.sql_methods import appended
from etl.migration.values import (
    FALSE,
    NULL,
    TRUE,
    Value,
    both,
    choose,
    constant,
    negation,
)

_STATEMENTS = {tree.While: "a loop", tree.Try: "an exception handler", tree.Jump: "a jump", tree.Function: "a function"}


class Script(Expressions):
    """Executes statements on the fields of a draft."""

    def run(self, statements: Sequence[tree.Statement], where: Value | None) -> Mapping[str, Value]:
        """The fields that a script sets, with their values."""
        for statement in statements:
            self._execute(statement, where)
        return self.fields

    def _execute(self, statement: tree.Statement, where: Value | None) -> None:
        if isinstance(statement, tree.Assignment):
            self._assign(statement, where)
        elif isinstance(statement, tree.If):
            condition = self.condition(statement.condition)
            for one in statement.then if condition != FALSE else ():
                self._execute(one, both(where, condition))
            for one in statement.other if condition != TRUE else ():
                self._execute(one, both(where, negation(condition)))
        elif isinstance(statement, tree.ForEach):
            self._repeat(statement, where)
        elif isinstance(statement, tree.Return):
            self.going = both(self.going, FALSE if where is None else negation(where))
        elif isinstance(statement, tree.Call):
            self._call(statement.call, where)
        else:
            raise NoCounterpartError(f"{_STATEMENTS[type(statement)]} in Painless")

    def _repeat(self, loop: tree.ForEach, where: Value | None) -> None:
        """Execute the body for each item of a constant list."""
        if (
            isinstance(loop.items, tree.MethodCall)
            and loop.items.name == "entrySet"
            and isinstance(loop.items.target, tree.FieldPath)
        ):
            self._repeat_members(loop, loop.items.target, where)
            return
        items = self._constant(loop.items)
        if not isinstance(items, list) or len(items) > MAX_ROUNDS:
            raise NoCounterpartError("a loop in Painless over what only an event knows")
        for item in items:
            self.constants[loop.variable] = item
            self.variables[loop.variable] = constant(item)
            for statement in loop.body:
                self._execute(statement, where)

    def _repeat_members(self, loop: tree.ForEach, target: tree.FieldPath, where: Value | None) -> None:
        """Execute the body for each known member of an object."""
        prefix = f"{target.name}." if target.parts else ""
        names = dict.fromkeys(name.removeprefix(prefix).split(".")[0] for name in self.draft.types if name.startswith(prefix))
        if not names:
            raise NoCounterpartError(
                "a loop in Painless over an object whose members are not known; a log given by --sample shows them"
            )
        for name in names:
            self.entries[loop.variable] = tree.FieldPath((*target.parts, name))
            for statement in loop.body:
                self._execute(statement, where)
        del self.entries[loop.variable]

    def _assign(self, one: tree.Assignment, where: Value | None) -> None:
        root, path = self._path(one.target)
        if isinstance(one.value, tree.EmptyMap | tree.MapLiteral):
            self._new_object(root, path, one.value, where)
            return
        if one.operator == "=" and (members := self._members(one.value)):
            for inside, value in members.items():
                self._put(root, (*path, *inside), value, where)
            return
        node = one.value if one.operator == "=" else tree.Binary(one.operator[0], one.target, one.value)
        self._put(root, path, self.value(node), where)

    def _path(self, target: tree.Node) -> tuple[str, tuple[str, ...]]:
        """The variable (empty for the event) and the members that an assignment names."""
        match target:
            case tree.FieldPath(parts) if parts:
                return "", parts
            case tree.Variable(name):
                return name, ()
            case tree.Member(inner, name):
                root, path = self._path(inner)
                return root, (*path, name)
            case tree.MethodCall(inner, "get", (key,)) if isinstance(name := self._constant(key), str):
                root, path = ("", ()) if inner == tree.FieldPath(()) else self._path(inner)
                return root, (*path, name)
        raise NoCounterpartError("an assignment in Painless to something that is neither a field nor a variable")

    def _new_object(self, root: str, path: tuple[str, ...], node: tree.EmptyMap | tree.MapLiteral, where: Value | None) -> None:
        """An object exists as soon as one of its members does."""
        if root and not path:
            self.objects[root] = {}
        for key, value in node.entries if isinstance(node, tree.MapLiteral) else ():
            name = self._constant(key)
            if not isinstance(name, str):
                raise NoCounterpartError("a map in Painless with a key that is not constant")
            if isinstance(value, tree.EmptyMap | tree.MapLiteral):
                self._new_object(root, (*path, name), value, where)
            else:
                self._put(root, (*path, name), self.value(value), where)

    def _members(self, node: tree.Node) -> Mapping[tuple[str, ...], Value]:
        """The members of an object that is assigned; none for a single value."""
        match node:
            case tree.Variable(name) if name in self.objects:
                return self.objects[name]
            case tree.MethodCall(tree.Variable(name), "getValue", ()) if name in self.entries:
                field = self.entries[name]
                return {(): self._field(field.name)} if field.name in self.draft.types else self._members(field)
            case tree.FieldPath() if node.name not in self.draft.types:
                names = self.draft.under(node.name)
                return {tuple(name[len(node.name) + 1 :].split(".")): self._field(name) for name in names}
        return {}

    def _put(self, root: str, path: tuple[str, ...], value: Value, where: Value | None) -> None:
        where = both(self.going, where)
        if not root:
            name = clean_name(".".join(path))
            self.fields[name] = choose(where, value, self._field(name) if where is not None else value)
        elif path:
            members = self.objects.setdefault(root, {})
            members[path] = choose(where, value, members.get(path, NULL))
        else:
            self.variables[root] = choose(where, value, self.variables.get(root, NULL))

    def _call(self, node: tree.Node, where: Value | None) -> None:
        if isinstance(node, tree.MethodCall) and node.name == "remove" and isinstance(node.target, tree.FieldPath):
            key = self._constant(node.arguments[0]) if len(node.arguments) == 1 else None
            if not isinstance(key, str):
                raise NoCounterpartError("remove(…) in Painless with a name that is not constant")
            name = ".".join((*node.target.parts, key))
            for one in (*self.draft.under(name), name):
                if one in self.draft.types or one in self.fields:
                    self._put("", (one,), NULL, where)
        elif isinstance(node, tree.MethodCall) and node.name in ("add", "addAll") and len(node.arguments) == 1:
            before, added = self.value(node.target), self.value(node.arguments[0])
            self._put(*self._path(node.target), appended(before, added), where)
        elif isinstance(node, tree.MethodCall) and node.name == "put" and len(node.arguments) == 2:
            key, value = node.arguments
            name = self._constant(key)
            if not isinstance(name, str) or not isinstance(node.target, tree.FieldPath):
                raise NoCounterpartError("put(…) in Painless with a name that is not constant")
            self._put("", (*node.target.parts, name), self.value(value), where)
        else:
            raise NoCounterpartError("a call in Painless whose result is not used")
