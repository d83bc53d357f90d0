"""What the user is advised to do about errors of the operating system."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from etl.system_errors import advice_for_text, text_with_advice, with_advice, write_advice


def error(number: int) -> OSError:
    return OSError(number, os.strerror(number), "out/x.json")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "free disk space"),
        (errno.EDQUOT, "quota"),
        (errno.EFBIG, "ulimit -f"),
        (errno.EROFS, "mount the file system for writing"),
        (errno.EMFILE, "ulimit -n"),
        (errno.ENFILE, "fs.file-max"),
        (errno.EACCES, "permission"),
        (errno.EPERM, "permission"),
        (errno.ENAMETOOLONG, "shorten the path"),
        (errno.ELOOP, "symbolic link"),
        (errno.ENOTDIR, "a file is where a folder must be"),
        (errno.EISDIR, "a folder is where a file must be"),
        (errno.ENOENT, "a folder of the path is missing"),
        (errno.EIO, "dmesg"),
        (errno.ENOTTY, "mend the cause"),
    ],
)
def test_each_failed_write_gets_the_advice_for_its_cause(number: int, words: str) -> None:
    advice = write_advice(error(number))

    assert words in advice
    assert ("disk space" in advice) == (number == errno.ENOSPC)


def test_advice_that_concerns_only_writes_is_not_given_for_other_uses_of_a_file() -> None:
    assert with_advice(error(errno.ENOENT)) == str(error(errno.ENOENT))
    assert with_advice(error(errno.EFBIG)).startswith(f"{error(errno.EFBIG)}; raise the limit of the size of a file")


def test_a_text_without_its_number_is_recognised() -> None:
    assert advice_for_text("Too many open files").startswith("the system lets a process")
    assert advice_for_text("no such thing") == ""
    assert text_with_advice("Disk quota exceeded").startswith("Disk quota exceeded; free space within this user's disk quota")
    assert text_with_advice("Connection refused") == "Connection refused"


def test_a_command_says_what_to_do_about_a_limit_of_the_size_of_files(tmp_path: Path) -> None:
    (tmp_path / "shipper.conf").write_text("input { stdin {} } output { stdout {} }")

    made = subprocess.run(
        ["bash", "-c", 'ulimit -f 0; exec "$@"', "bash", sys.executable, "-m", "etl", "import", "shipper.conf", "-o", "p.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert made.returncode == 1
    assert "File too large" in made.stderr
    assert "ulimit -f" in made.stderr
