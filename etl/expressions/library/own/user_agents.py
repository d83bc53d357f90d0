"""The function `user_agent`: who a web client says it is."""

from __future__ import annotations

from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError, text_literal
from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.kernels import by_value
from etl.expressions.widening import STRING


def user_agent(text: BoundNode, part: BoundNode) -> BoundNode:
    """A detail of a user agent, by its name in ECS."""
    from etl.columns.user_agents import DETAILS

    name = text_literal(part)
    if name not in DETAILS:
        raise MisuseError(f"a part of a user agent is one of {', '.join(DETAILS)}, not {name!r}")
    number = DETAILS.index(name)

    def one(value: str) -> str | None:
        from etl.columns.user_agents import user_agent_rules

        return user_agent_rules()(value)[number]

    return by_value(STRING, one, fails=False)(text)


FUNCTIONS = (
    LibraryFunction(
        "user_agent",
        "text: string, part: string",
        "string",
        user_agent,
        "A part of a user agent: name, version, device.name, os.name, os.version or os.full; an unknown name is Other.",
        "user_agent('curl/8.5.0', 'name')",
        "curl",
        null="null if the text is null, and for an unknown version or system",
        loops=True,
    ),
)
