"""One family of errors for everything a user can get wrong.

A :class:`UserError` carries *all* problems found, each saying what is wrong, where, and
how to mend it. Command lines print it and exit 1, without a traceback. Anything else that
escapes is a bug in this project.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Attributes
    ----------
    what : the fault in one sentence, with the offending value.
    where : ``file:line``, ``file``, or a column name; empty if there is no place.
    how : how to mend it; empty if that is plain from ``what``.
    """

    what: str
    where: str = ""
    how: str = ""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        mend = f"\n    {self.how}" if self.how else ""
        return f"{place}{self.what}{mend}"


class UserError(Exception):
    """The scenario, the data or the call is wrong; carries every problem found.

    >>> print(UserError([Problem("dp (0) must be at least 1", "a.yaml:7", "write dp: 1")]))
    a.yaml:7: dp (0) must be at least 1
        write dp: 1
    """

    def __init__(self, problems: Iterable[Problem] | Problem) -> None:
        self.problems = [problems] if isinstance(problems, Problem) else list(problems)
        super().__init__("\n".join(str(p) for p in self.problems))
