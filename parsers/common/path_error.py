"""The error of a path into JSON or XML that cannot be read."""


class PathError(ValueError):
    """A path that cannot be read; ``at`` is the character."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at
