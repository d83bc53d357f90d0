"""Shows values: as HTML in a notebook, as text elsewhere."""

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


class LiveDisplay:
    """Shows a value that changes: in a notebook in one place, elsewhere as text whenever the text changes."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._shown = ""

    def update(self, value: Any) -> None:
        """Show the value as it is now."""
        if not is_notebook():
            text = str(value)
            if text != self._shown:
                print(text, flush=True)
            self._shown = text
        elif self._handle is None:
            from IPython.display import display as show

            self._handle = show(value, display_id=True)
        else:
            self._handle.update(value)


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in getattr(shell, "config", {})


def printable(text: str, limit: int) -> str:
    """A text on one line, without control characters, cut to a number of characters."""
    shown = "".join(one if one.isprintable() else "·" for one in text[: limit + 1])
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"
