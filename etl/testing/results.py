"""Running the tests of files, and their results."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from etl.api import EtlError
from etl.config.cases.case import Case
from etl.config.cases.case_file import Suite
from etl.testing.case_comparison import Difference, differences
from etl.testing.trial import OnSpark, Outcome, run_case


@dataclass
class Result:
    """The result of a test."""

    file: str
    location: str
    name: str
    seconds: float
    outcome: Outcome | None = None
    """The pipeline's output; None when the run failed."""
    shows: bool = False
    """Whether the test expects nothing."""
    differences: list[Difference] = field(default_factory=list)
    error: str | None = None
    """Why the pipeline did not run to its end."""
    updated: bool = False

    @property
    def passed(self) -> bool:
        """Whether all is as expected."""
        return self.error is None and not self.differences

    def lines(self) -> Iterator[str]:
        """The differences as lines of text."""
        if self.error is not None:
            yield from self.error.splitlines()
        for difference in self.differences:
            yield f"{difference.location}: {difference.text}"
            yield from (f"  {line}" for line in difference.lines)


def result(suite: Suite, case: Case, on_spark: OnSpark) -> Result:
    """Run a test; an error of the pipeline becomes the result's ``error``."""
    began = time.monotonic()
    made = Result(suite.file, suite.location(case.path), case.name, 0.0, shows=case.shows)
    try:
        made.outcome = run_case(suite, case, on_spark)
        made.differences = differences(suite, case, made.outcome)
    except (EtlError, OSError) as error:
        made.error = str(error)
    except Exception as error:  # after an error in one test the others still run
        made.error = f"{type(error).__name__}: {error}"
    made.seconds = time.monotonic() - began
    return made
