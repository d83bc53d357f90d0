"""Compiled kernels over Arrow columns of texts, numbers, times and JSON lines: the library that engine and components share.

Every package of this repository may import these modules; they import none of its other packages. Parsers and connectors use:

- `texts`: `Texts` (address and length of each text of a string, large_string or string_view column), and functions on
  columns that may be views: `materialize` (views → strings), `take_rows`, `filter_batch`, `concat_arrays`,
  `make_span_views`, `copy_texts`.
- `lines`: a block of bytes → views of its lines.
- `numbers`, `times`, `ip_kernel`: columns of texts → numbers, timestamps, IP addresses and networks; `ip_addresses` parses one
  address, for kernels.
- `json_lines`: columns → JSON lines; `json_nulls` removes null members from them.
- To write a kernel: `kernels` (`kernel`, `kernel_function`, `inlined`: compile a function with numba; the machine code of a
  `kernel` is cached),
  `intrinsics` (loads, stores and searches at an address), `byte_runs` (comparing, hashing and prefetching runs of bytes),
  `views` (writing a string view), `digits` and `days` (writing numbers and dates).
- `disk_cache`: values that are stored between runs.

The other modules belong to the engine: `text_layout` locates texts and `distinct` deduplicates them; `json_kernel`,
`json_table`, `json_cells` and `json_texts` are parts of `json_lines`, `time_kernel` of `times`; `kernel_fingerprint`,
`cache_folder`, `compile_events` and `compiler_memory` belong to compiling and caching.

Modules with kernels import numba (0.2 s), so import them inside the function that runs them.
"""
