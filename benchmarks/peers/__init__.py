"""The same work by others, from the package index: each a program with its own Python, run beside ours."""
