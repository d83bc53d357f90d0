"""Tag expressions: ``a || b``, or ``*`` for all. Brokers compare hash codes only, so what they send is looked at again."""

from __future__ import annotations

ALL = "*"


def wanted(expression: str) -> tuple[str, ...] | None:
    """The tags of an expression, None for all. Raises ValueError."""
    if expression.strip() == ALL:
        return None
    tags = tuple(part.strip() for part in expression.split("||"))
    for tag in tags:
        if not tag or ALL in tag or "|" in tag or any(letter.isspace() or letter < " " for letter in tag):
            raise ValueError(f"{expression!r} is no tag expression; write 'a || b', or '*' for all")
    return tags


def subscription(expression: str) -> str:
    """As brokers take it."""
    tags = wanted(expression)
    return ALL if tags is None else "||".join(tags)
