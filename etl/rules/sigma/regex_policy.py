"""pySigma's policy for regular expressions: those that one of our engines runs, with look-around and back-references."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sigma.policy import SigmaPolicy
from sigma.policy.regex_engine import RegexEngine

from etl.rules.search.regex_search import BadRegexError, choose_engine


class SearchEngines(RegexEngine):
    """RE2 and the package ``regex``. pySigma itself runs only patterns for names with wildcards."""

    def compile(self, pattern: str, flags: int = 0) -> Any:
        """Raises BadRegexError. The flags are those of Python's ``re``."""
        import re

        import regex

        letters = "".join(letter for letter in "ims" if flags & re.RegexFlag[letter.upper()])
        choose_engine(f"(?{letters}){pattern}" if letters else pattern)
        try:
            return regex.compile(pattern)
        except regex.error:  # a notation of RE2 only
            return None

    @property
    def error(self) -> type[Exception]:
        return BadRegexError


@lru_cache(maxsize=1)
def policy() -> SigmaPolicy:
    """The policy for all rules that pySigma reads."""
    return SigmaPolicy(regex_engine=SearchEngines())
