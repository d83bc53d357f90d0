"""The command ``etl``, also as ``python -m etl``."""

from __future__ import annotations

import signal


def run() -> None:
    """Run the command line. Ctrl-C while it is loaded ends the process at once, without a traceback."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from etl.cli.main import main

    if usual is signal.default_int_handler:
        signal.signal(signal.SIGINT, usual)
    main()


if __name__ == "__main__":
    run()
