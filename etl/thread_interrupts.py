"""Exceptions that one thread raises in another, and their withdrawal.

CPython 3.11 keeps one flag for all threads, which says that such an exception waits, and clears it only where a thread takes one.
`PyThreadState_SetAsyncExc` without an exception removes the exception but sets the flag, as does the end of a thread that has not
taken its own. From then on every call and every loop of the process looks for it in vain, and a function that is traced, as by a
debugger, a measurement of coverage or Hypothesis, never begins (`RESUME` is repeated while the flag is set). So an exception is
withdrawn by raising another one and catching it.
"""

from __future__ import annotations

import ctypes
import threading


class _Withdrawal(BaseException):
    """Takes the place of an exception that is to be withdrawn."""


def raise_in_thread(thread: int, exception: type[BaseException]) -> None:
    """Raise an exception in the thread of this identifier when it next executes Python code. One that waits there is replaced."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(exception))


def withdraw_exception() -> None:
    """Remove the exception that waits for the calling thread, if there is one. Nothing may raise a further one meanwhile."""
    try:
        raise_in_thread(threading.get_ident(), _Withdrawal)
        while True:  # the interpreter looks for exceptions where a loop begins again
            pass
    except _Withdrawal:
        return
