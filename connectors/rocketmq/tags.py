"""Tag expressions: ``a || b``, or ``*`` for all. Brokers compare hash codes only, so the source compares tags again."""

from __future__ import annotations

ALL = "*"


def parse_tags(expression: str) -> tuple[str, ...] | None:
    """Return the tags of an expression, None for all. Raises ValueError."""
    if expression.strip() == ALL:
        return None
    tags = tuple(part.strip() for part in expression.split("||"))
    for tag in tags:
        if not tag or ALL in tag or "|" in tag or any(letter.isspace() or letter < " " for letter in tag):
            raise ValueError(f"{expression!r} is not a tag expression; write 'a || b', or '*' for all")
    return tags


def to_subscription(expression: str) -> str:
    """Return the expression in the form that brokers accept."""
    tags = parse_tags(expression)
    return ALL if tags is None else "||".join(tags)
