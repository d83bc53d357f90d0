"""Starting, watching and ending pipelines, for every caller: pipelines and what is asked of the run go in, messages and totals
come out through two callbacks.

Nothing here knows of a terminal, of command lines or of signals. ``etl run`` is one caller, ``etl test`` and the tests of this
repository are others; these hand in a session that all their runs share.
"""
