"""Regular expressions over Arrow columns: patterns become automata, captures stay where they are in the text.

The public face is `etl.scanner.scanner.Scanner` (patterns in, captures, matches and time-outs out), `etl.scanner.syntax.parse`
(the text of a pattern in), `etl.scanner.ways.way` (which engine runs it, and why) and `etl.columns.texts` (columns of
views). Nothing is imported here: numba takes 0.2 s, and lint does without. docs/scanner.md explains the rest.
"""
