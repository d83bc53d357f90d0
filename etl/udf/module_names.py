"""Names at the top level of a Python file: imports, classes, functions and aliases."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field


@dataclass
class Names:
    """The names of a file: what it imports, its classes, and its aliases of types."""

    imported: dict[str, str] = field(default_factory=dict)
    """Name in the file → full name."""
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = field(default_factory=dict)
    aliases: dict[str, ast.expr] = field(default_factory=dict)
    reads: int = 0
    """Annotations read so far, with those inside others."""

    @classmethod
    def of(cls, tree: ast.Module) -> Names:
        """The names at the top level of a file."""
        names = cls()
        for node in tree.body:
            match node:
                case ast.Import():
                    names.imported |= {
                        one.asname or one.name.split(".")[0]: one.name if one.asname else one.name.split(".")[0]
                        for one in node.names
                    }
                case ast.ImportFrom():
                    names.imported |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
                case ast.ClassDef():
                    names.classes[node.name] = node
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    names.functions[node.name] = node
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    names.aliases[name] = value
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    names.aliases[name] = value
        return names

    def full_name(self, node: ast.expr) -> str:
        """``pyarrow.Array`` for ``pa.Array``; empty for what is not a name."""
        if isinstance(node, ast.Name):
            return self.imported.get(node.id, node.id)
        if isinstance(node, ast.Attribute) and (owner := self.full_name(node.value)):
            return f"{owner}.{node.attr}"
        return ""
