"""The errors that are reported to users.

A :class:`UserError` contains *all* problems, each with a description, a location, and a
remedy. Command lines print it and exit with 1, without a traceback. Any other exception
is a bug in this project.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from prism_common.escapes import printable


@dataclass(frozen=True)
class Problem:
    """One error or warning.

    Attributes
    ----------
    what : the problem in one sentence, with the wrong value.
    where : ``file:line``, ``file``, or a column name; empty if there is no location.
    how : how to correct it; empty if ``what`` is sufficient.
    """

    what: str
    where: str = ""
    how: str = ""

    def __str__(self) -> str:
        place = f"{printable(self.where)}: " if self.where else ""
        mend = f"\n    {printable(self.how)}" if self.how else ""
        return f"{place}{printable(self.what)}{mend}"


class UserError(Exception):
    """The scenario, the data or the call is wrong; contains every problem.

    >>> print(UserError([Problem("dp (0) must be at least 1", "a.yaml:7", "write dp: 1")]))
    a.yaml:7: dp (0) must be at least 1
        write dp: 1
    """

    def __init__(self, problems: Iterable[Problem] | Problem) -> None:
        # The arguments stay as they are, so that an error can come from another process.
        self.problems = [problems] if isinstance(problems, Problem) else list(problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)
