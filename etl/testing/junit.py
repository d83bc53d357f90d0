"""Writing results as JUnit XML for build servers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.etree import ElementTree

from etl.testing.results import Result

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold."""


_ROOT = b"<testsuite"
"""The first element of a report, of this tool (``testsuites``) and of others."""

_BEGINNING_BYTES = 4096
"""How much of a file is read to find the element, behind the XML declaration and comments."""


def is_replaceable(path: Path) -> bool:
    """Whether a report may be written there: nothing is lost, because it is a report itself, empty or no file. Raises OSError."""
    if not path.is_file():
        return True
    with path.open("rb") as file:
        beginning = file.read(_BEGINNING_BYTES)
    return not beginning.strip() or _ROOT in beginning


def write(path: Path, results: Sequence[Result]) -> None:
    """Write one test suite for each file, with one test case for each test. Raises OSError."""
    root = ElementTree.Element("testsuites", _counts(results))
    for file in dict.fromkeys(result.file for result in results):
        mine = [result for result in results if result.file == file]
        suite = ElementTree.SubElement(root, "testsuite", {"name": file, **_counts(mine)})
        for result in mine:
            _case(suite, result)
    ElementTree.ElementTree(root).write(path, "utf-8", xml_declaration=True)


def _case(suite: ElementTree.Element, result: Result) -> None:
    about = {"classname": result.file, "name": _clean(result.name), "time": f"{result.seconds:.3f}"}
    element = ElementTree.SubElement(suite, "testcase", about)
    text = "\n".join(result.lines())
    if result.error is not None:
        ElementTree.SubElement(element, "error", {"message": _clean(result.error)})
    elif result.differences:
        failure = ElementTree.SubElement(element, "failure", {"message": _clean(result.differences[0].text)})
        failure.text = _clean(text)


def _counts(results: Sequence[Result]) -> dict[str, str]:
    return {
        "tests": str(len(results)),
        "failures": str(_number(result.error is None and bool(result.differences) for result in results)),
        "errors": str(_number(result.error is not None for result in results)),
        "time": f"{sum(result.seconds for result in results):.3f}",
    }


def _number(truths: Iterable[bool]) -> int:
    return sum(truths)


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
