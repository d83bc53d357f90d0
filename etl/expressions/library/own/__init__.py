"""Our own functions: what people who work with logs need, in every dialect."""
