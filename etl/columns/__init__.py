"""Compiled kernels over Arrow columns of texts, numbers, times and JSON lines: the library that engine and components share.

Every package of this repository may import these modules; they import none of its other packages. Parsers and connectors use:

- `texts`: `Texts` (address and length of each text of a string, large_string or string_view column), and functions on
  columns that may be views: `materialize` (views → strings), `take_rows`, `filter_batch`, `concat_arrays`,
  `make_span_views`, `copy_texts`.
- `lines`: a block of bytes → views of its lines.
- `numbers`, `times`, `ip_kernel`: columns of texts → numbers, timestamps, IP addresses and networks; `ip_addresses` and
  `ip_networks` parse one address or network, for kernels.
- `json.lines`: columns → JSON lines; `json.nulls` removes null members from them; `json.values`: other types → JSON texts.
- `joined_texts`, `encodings`, `user_agents`, `python_values`: columns → joined texts, Base64 and hexadecimal digits, programs of
  user agents, values of Python.
- To write a kernel: `kernels` (`kernel`, `kernel_function`, `inlined`: compile a function with numba; the machine code of a
  `kernel` is cached),
  `intrinsics` (loads, stores and searches at an address), `byte_runs` (comparing, hashing and prefetching runs of bytes),
  `views` (writing a string view), `digits` and `days` (writing numbers and dates), `json.escapes` (escapes in JSON texts).
- `disk_cache`: values that are stored between runs.

The other modules belong to the engine: `text_layout` locates texts; `json.kernel`, `json.table`, `json.cells`, `json.texts` are
parts of `json.lines`, `time_kernel` of `times`; `kernel_fingerprint`, `cache_folder`, `compile_events` and
`compiler_memory` belong to compiling and caching.

Modules with kernels import numba (0.2 s), so import them inside the function that runs them.
"""
