"""Bytes → lines → events, for sources that read text.

`line_cutter` cuts blocks of bytes (`blocks`, `charset`) into lines, and `line_grouping` groups lines into events as the option
`multiline` says. `event_boundaries` finds where events begin and end without reading all bytes, for planning (`newlines`).
"""
