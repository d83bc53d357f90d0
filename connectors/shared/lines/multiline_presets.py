"""Multiline presets for the logs of common languages and container runtimes.

A preset describes lines that continue an event; any other line begins one. Sources: `Throwable` of the Java API and the
manual of Logback; `traceback` of the Python library; the runtime of Go (`panic`, `traceback`); `Exception#full_message` of
Ruby; `Throwable` and the error log of the PHP manual; Docker's JSON file driver; the log format of the Kubernetes container
runtime interface.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from connectors.shared.lines.line_grouping import transition_table

Name = Literal["java", "python", "go", "ruby", "php", "docker", "cri"]


class Preset(NamedTuple):
    """Kinds of lines, and which kinds may follow each other."""

    patterns: tuple[str, ...]
    """One for each kind, tried in order."""

    continues: tuple[tuple[bool, ...], ...]
    spliced: bool = False
    """Whether lines are parts of one line."""


def _after_any(patterns: dict[str, str]) -> Preset:
    """Kinds of lines that always continue an event."""
    return _after(patterns, dict.fromkeys(patterns, ""))


def _after(patterns: dict[str, str], after: dict[str, str]) -> Preset:
    """Kinds of lines by name, and after which kinds they continue an event; "" means any line, no entry none."""
    names = [*patterns, ""]
    allowed = {names.index(name): {names.index(one) for one in kinds.split()} for name, kinds in after.items()}
    anything = {names.index(name) for name, kinds in after.items() if not kinds}
    return Preset(
        tuple(patterns.values()), transition_table(len(patterns), lambda old, new: new in anything or old in allowed.get(new, ()))
    )


def _parts(complete: str, partial: str) -> Preset:
    """Parts of one line: a partial line and the next part of the same stream."""
    patterns = tuple(form.replace("STREAM", stream) for form in (complete, partial) for stream in ("stdout", "stderr"))
    return Preset(patterns, transition_table(4, lambda old, new: old >= 2 and new in (old, old - 2)), spliced=True)


_CLASS = r"(?:[A-Za-z_$][\w$]*\.)+[\w$]*(?:Exception|Error|Throwable)[\w$]*"

_JAVA = _after_any(
    {
        "indented": r"^[ \t]+\S",
        "cause": rf"^(?:Caused by|Suppressed|Wrapped by): |^{_CLASS}(?::|$)",
    }
)

_PYTHON = _after(
    {
        "traceback": r"^(?:Traceback|Exception Group Traceback) \(most recent call last\):",
        "chained": r"^(?:During handling of the above exception|The above exception was the direct cause)",
        "indented": r"^[ \t]+\S",
        "exception": r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:: |:?$)",
        "empty": r"^[ \t]*$",
    },
    {
        "traceback": "",
        "chained": "empty",
        "indented": "",
        "exception": "traceback indented",
        "empty": "exception chained",
    },
)

_GO = _after(
    {
        "panic": r"^(?:panic|fatal error): |^SIG[A-Z]+: ",
        "signal": r"^\[signal |^\[recovered\]|^runtime: |^PC=0x|^rax +0x",
        "goroutine": r"^goroutine \d+ .*\[.*\]:$|^runtime stack:$",
        "location": r"^\t",
        "created": r"^created by ",
        "exit": r"^exit status \d+",
        "call": r"^\S+\(.*\)$|^\.\.\.(?:additional|\d+) .*frames elided\.\.\.$",
        "empty": r"^$",
    },
    {
        "signal": "panic location signal",
        "goroutine": "",
        "location": "",
        "created": "location call",
        "exit": "location empty",
        "call": "goroutine location",
        "empty": "panic signal location",
    },
)

_RUBY = _after(
    {
        "from": r"^[ \t]+(?:\d+: )?from ",
        "frame": r"^\S.*:\d+:in [`'][^`']*'$",
        "indented": r"^[ \t]+\S",
        "raised": r"^\S.*:\d+:in [`'][^`']*': ",
    },
    {"from": "", "frame": "", "indented": "", "raised": "from"},
)

_PHP = _after(
    {
        "frame": r"^#\d+ ",
        "trace": r"^Stack trace:$|^\[(?:previous )?(?:stacktrace|exception)\]|^(?:\[[^\]]+\] )?PHP (?:Stack trace:| +\d+\. )",
        "indented": r"^[ \t]+\S",
        "next": r"^Next ",
        "closing": r'^"\}',
        "empty": r"^$",
    },
    {"frame": "", "trace": "", "indented": "", "next": "empty frame", "closing": "frame empty", "empty": "frame"},
)

_TEXT = r'(?:[^"\\]|\\.)*'
_LOG, _REST = r'^(?<head>\{"log":")', r'(?<tail>","stream":"STREAM".*)$'

PRESETS: dict[Name, Preset] = {
    "java": _JAVA,
    "python": _PYTHON,
    "go": _GO,
    "ruby": _RUBY,
    "php": _PHP,
    "docker": _parts(complete=rf"{_LOG}{_TEXT}\\n{_REST}", partial=f"{_LOG}{_TEXT}{_REST}"),
    "cri": _parts(complete=r"^(?<head>\S+ STREAM F\S*(?: |$))", partial=r"^(?<head>\S+ STREAM P\S*(?: |$))(?<tail>)"),
}
