"""Printing: as HTML in a notebook, as text elsewhere."""

from __future__ import annotations

import sys
from typing import Any


def display(value: Any) -> None:
    """Show a value that has ``_repr_html_``."""
    if is_notebook():
        from IPython.display import display as show  # type: ignore[import-not-found]

        show(value)
    else:
        print(value)


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in getattr(shell, "config", {})
