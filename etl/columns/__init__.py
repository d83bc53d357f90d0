"""Kernels over Arrow columns: machine code that reads and makes texts, numbers, times and JSON, a column at a time.

Engine, connectors and parsers import from here; nothing here knows of pipelines or patterns. The modules by use:

- Texts: `texts` (address and length of each text of any text column, and columns made of them), `views` (kernels for
  Arrow's string views), `lines` (a block of bytes → its lines), `layout`, `addresses`.
- Values: `numbers` and `times` (texts → values), `digits` and `days` (values → texts).
- JSON lines: `json_lines` writes the rows of a batch; `json_nulls` leaves null members out; the others are its parts.
- Kernels of your own: `kernels` compiles a function, `intrinsics` has loads, stores and searches of 16 bytes, `same_bytes`
  compares; `cache_folder` and `cache_files` keep what was compiled or learned; `compile_events` tells that a kernel is compiled.

Modules with kernels import numba (0.2 s): import them in the function that runs them.
"""
