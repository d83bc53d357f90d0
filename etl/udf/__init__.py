"""Functions of the user (user-defined functions): declared in a pipeline file, read without running them, called in workers."""
