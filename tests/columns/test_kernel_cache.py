"""The key of a compiled kernel covers everything that determines its machine code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import etl
from etl.columns import cache_folder
from etl.columns.kernel_fingerprint import fingerprint
from etl.columns.kernels import kernel, kernel_function

LIMIT = 3
TABLE = np.arange(4, dtype=np.uint8)


@kernel_function
def _limited(x: Any) -> Any:
    return min(x, LIMIT) + TABLE[1]


def _sum(x: Any) -> Any:
    return x + _limited(x)


def _other_sum(x: Any) -> Any:
    return x - _limited(x)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own; returns the folder of kernels."""
    monkeypatch.setattr(cache_folder, "folder", lambda: tmp_path)
    return tmp_path / "kernels"


@pytest.mark.parametrize(
    ("name", "value"), [("LIMIT", 4), ("LIMIT", np.int32(3)), ("TABLE", TABLE[::-1].copy()), ("TABLE", TABLE.astype(np.int8))]
)
def test_a_constant_that_changes_changes_the_key(name: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(_sum, {})

    monkeypatch.setitem(globals(), name, value)

    assert fingerprint(_sum, {}) != before


def test_called_functions_and_options_are_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(_sum, {"boundscheck": False})

    assert fingerprint(_sum, {"boundscheck": True}) != before
    monkeypatch.setitem(globals(), "_limited", kernel_function(lambda x: min(x, LIMIT) + TABLE[2]))
    assert fingerprint(_sum, {"boundscheck": False}) != before


def test_the_key_depends_on_the_content_and_not_on_the_process() -> None:
    assert fingerprint(_sum, {}) == fingerprint(_sum, {}) != fingerprint(_other_sum, {})


def test_a_value_without_a_stable_description_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "LIMIT", object())

    with pytest.raises(TypeError, match="no stable description"):
        fingerprint(_sum, {})


@pytest.mark.slow
def test_each_signature_is_a_file_which_the_next_process_loads(cache: Path) -> None:
    first = kernel(_sum)
    assert (first(np.int64(1)), first(np.uint8(2))) == (3, 5)
    assert len(list(cache.iterdir())) == 2

    again: Any = kernel(_sum)

    assert (again(np.int64(1)), again(np.uint8(2))) == (3, 5)
    assert sum(again.stats.cache_hits.values()) == 2


@pytest.mark.slow
def test_another_constant_is_compiled_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernel(_sum)(np.int64(9)) == 9 + 3 + 1

    monkeypatch.setitem(globals(), "LIMIT", 5)
    monkeypatch.setitem(globals(), "_limited", kernel_function(_limited.py_func))  # type: ignore[attr-defined]

    assert kernel(_sum)(np.int64(9)) == 9 + 5 + 1


@pytest.mark.parametrize("spoil", [lambda code: code[:100], lambda code: b"", lambda code: b"\x80\x05N."])
def test_a_corrupt_file_is_compiled_again(cache: Path, spoil: Callable[[bytes], bytes]) -> None:
    kernel(_sum)(np.int64(1))
    (file,) = cache.iterdir()
    file.write_bytes(spoil(file.read_bytes()))

    assert kernel(_sum)(np.int64(1)) == 3


@pytest.mark.slow
def test_every_kernel_has_a_key_that_is_the_same_in_every_process() -> None:
    script = Path(__file__).with_name("kernel_keys.py")
    root = Path(etl.__file__).parents[1]

    printed = [
        subprocess.run(
            [sys.executable, script],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for seed in ("1", "2")
    ]

    assert printed[0] == printed[1]
    assert len(printed[0]) > 50
    assert len({line.split()[-1] for line in printed[0]}) == len(printed[0])


def test_a_kernel_is_compiled_where_the_working_folder_is_removed(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = f"""
import os
os.rmdir({str(gone)!r})
import pyarrow as pa
from parsers.json.parser import Json
print(Json.model_validate({{"type": "json", "fields": {{"a": "long"}}}}).compile()(pa.array(['{{"a": 1}}'])).columns["a"][0])
"""
    variables = {**os.environ, "SLUICE_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(Path(etl.__file__).parents[1])}
    ran = subprocess.run([sys.executable, "-c", code], cwd=gone, env=variables, capture_output=True, text=True, check=False)

    assert (ran.stdout, ran.returncode) == ("1\n", 0), ran.stderr
