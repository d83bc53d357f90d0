"""Starts, watches and ends pipelines for every caller: pipelines and a `RunRequest` in, messages and totals to two callbacks.

This package uses no terminal, command line or signal. Callers are ``etl run``, ``etl test`` and the tests of this repository; the
last two hand in a session that all their runs share.
"""
