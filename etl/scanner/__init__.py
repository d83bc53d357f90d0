"""Regular expressions over Arrow columns: patterns are compiled to tagged automata, captures are views into the text.

The public interface is `etl.scanner.scanner.Scanner` (patterns in; captures, matches and time-outs out),
`etl.scanner.syntax.parse` (parses a pattern) and `etl.scanner.engine_choice.choose_engine` (which engine runs it, and why).
Columns of views are in `etl.columns.texts`. This module imports nothing, because numba takes 0.2 s to import and lint does
not need it. docs/scanner.md describes the other modules.
"""
