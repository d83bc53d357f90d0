"""Binds function calls: one module for each kind of function; `functions` lists them."""
