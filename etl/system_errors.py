"""What a user can do about an error of the operating system, in words that fit its cause."""

from __future__ import annotations

import errno
import os
import resource

FILE_LIMIT_TEXTS = ("Too many open files", "error=24,")
"""Texts of errors in Java, C and Python when the limit of open files is reached."""

_LIMITS = {
    errno.ENOSPC: "free disk space (`df -h`), or inodes (`df -i`)",
    errno.EDQUOT: "free space within this user's disk quota (`quota -s`), or raise the quota",
    errno.EFBIG: (
        "raise the limit of the size of a file (`ulimit -f unlimited`, LimitFSIZE= of a systemd service), or use a file system "
        "that allows larger files"
    ),
    errno.EROFS: "mount the file system for writing, or choose a path on another one",
    errno.ENFILE: "the whole system has too many files open: end programs, or raise fs.file-max (`sysctl fs.file-max`)",
    errno.ENOMEM: "free memory, or raise the limit of memory of this process",
    errno.ENAMETOOLONG: "shorten the path and its names",
    errno.ELOOP: "a symbolic link in the path leads back to itself: replace it",
    errno.EIO: "check the disk (the kernel's messages, `dmesg`, say more)",
    errno.ESTALE: "the network file system has lost the file: mount it again",
}
"""Errors that mean the same, and need the same, wherever a file is opened, read or written."""

_WRITES = _LIMITS | {
    errno.EACCES: "give this user permission to write there, or choose another path",
    errno.EPERM: "give this user permission to write there (`lsattr` shows files that nobody may change), or choose another path",
    errno.ENOENT: "a folder of the path is missing: create it again",
    errno.EEXIST: "a file is where a folder must be: move it away, or choose another path",
    errno.ENOTDIR: "a file is where a folder must be: move it away, or choose another path",
    errno.EISDIR: "a folder is where a file must be: move it away, or choose another path",
    errno.ENOTEMPTY: "a folder is where a file must be: move it away, or choose another path",
    errno.ETXTBSY: "a program runs from this file: end it, or choose another path",
    errno.EBUSY: "another program uses the file or its folder: end that use, or choose another path",
}

_TEXTS = {os.strerror(number): number for number in (*_LIMITS, errno.EMFILE)}


def write_advice(error: OSError) -> str:
    """What lets a failed write succeed, as a command to the user."""
    return _advice(_WRITES, error.errno) or "mend the cause"


def with_advice(error: OSError) -> str:
    """The error's text; behind it what to do, if that is the same whatever was done with the file."""
    advice = _advice(_LIMITS, error.errno)
    return f"{error}; {advice}" if advice else str(error)


def advice_for_text(text: str) -> str:
    """What to do about an error of which only the system's text is known, as Java has it; empty for others."""
    return _advice(_LIMITS, _TEXTS.get(text))


def text_with_advice(text: str) -> str:
    """The system's text of an error, and behind it what to do, if that is known."""
    advice = advice_for_text(text)
    return f"{text}; {advice}" if advice else text


def _advice(texts: dict[int, str], number: int | None) -> str:
    return describe_file_limit() if number == errno.EMFILE else texts.get(number or 0, "")


def is_file_limit(text: str) -> bool:
    """Whether an error text means that too many files are open."""
    return any(words in text for words in FILE_LIMIT_TEXTS)


def describe_file_limit() -> str:
    """A message with the limit of open files and how to raise it."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        f"the system lets a process of this user have {limit} open (ulimit -n): raise it to 4096 or more, with `ulimit -n 4096`, "
        "LimitNOFILE= of a systemd service, or --ulimit nofile= of a container"
    )
