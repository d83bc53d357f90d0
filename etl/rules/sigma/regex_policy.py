"""What pySigma takes for a regular expression: whatever one of our engines runs, look-around and back-references too."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sigma.policy import SigmaPolicy
from sigma.policy.regex_engine import RegexEngine

from etl.rules.search.regex_search import BadRegexError, engine


class OurEngines(RegexEngine):
    """RE2 and the package ``regex``; what pySigma itself compiles are names with wildcards."""

    def compile(self, pattern: str, flags: int = 0) -> Any:
        """Raises BadRegexError. The flags are those of Python's ``re``."""
        import re

        import regex

        letters = "".join(letter for letter in "ims" if flags & re.RegexFlag[letter.upper()])
        engine(f"(?{letters}){pattern}" if letters else pattern)
        try:
            return regex.compile(pattern)
        except regex.error:  # RE2's own notation
            return None

    @property
    def error(self) -> type[Exception]:
        return BadRegexError


@lru_cache(maxsize=1)
def policy() -> SigmaPolicy:
    """For everything that pySigma reads."""
    return SigmaPolicy(regex_engine=OurEngines())
