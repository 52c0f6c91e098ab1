"""Base of all importers: a trace file, its content, and the list of its problems.

An importer is the part of a scenario that names a trace (``trace: {kind: ..., file: ...}``)
and reads it. The content is converted to the project's own format and stored next to the file
name, so a resolved scenario does not need the file any more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from prism_common.errors import Problem, UserError
from prism_sim.scenario.base import Closed

LARGEST_BYTES = 1 << 50
"""No message or buffer is larger than a pebibyte."""
AT_MOST = 20
"""Maximum number of problems reported for one trace; a file of the wrong kind has very many."""


Remark = Callable[[str], None]
"""Takes what a user should know of a trace that is read."""


def unread(_remark: str) -> None:
    """Take a remark that nobody reads."""


class TraceFile(Closed, ABC):
    """A trace in a file.

    Attributes
    ----------
    content : name of the field for the converted content.
    """

    content: ClassVar[str]

    file: str = Field(min_length=1)
    """Path of the trace, relative to the scenario's folder."""

    @abstractmethod
    def read(self, path: Path, remark: Remark = unread) -> Closed:
        """The content of the file at ``path``; ``remark`` takes what is no error.

        Raises
        ------
        UserError : with every error in the file, and every part that cannot be modelled.
        """

    def verify(self, content: Any) -> None:
        """Check ``content`` that the scenario gives directly, instead of the file.

        Raises
        ------
        UserError : it cannot come from a trace.
        """

    def fills(self, content: Any) -> dict[str, Any]:
        """Values of ``content`` for optional keys of the job."""
        return {}


class TraceProblems:
    """Collects the problems of a trace, so that all are reported together."""

    def __init__(self) -> None:
        self._problems: dict[Problem, None] = {}

    def __bool__(self) -> bool:
        return bool(self._problems)

    def add(self, what: str, where: str, how: str = "") -> None:
        self._problems[Problem(what, where, how)] = None

    def bounded(self, value: int, most: int, what: str, where: str) -> int:
        """``value``, or 0 and a problem if it is below 0 or above ``most``."""
        if 0 <= value <= most:
            return value
        self.add(f"{what} is {value}; it must be between 0 and {most}", where)
        return 0

    def add_all(self, error: UserError) -> None:
        self._problems |= dict.fromkeys(error.problems)

    def refuse(self) -> None:
        """Raise a UserError with all problems, if there are any."""
        if not self._problems:
            return
        reported = list(self._problems)[:AT_MOST]
        more = len(self._problems) - len(reported)
        if more:
            reported.append(Problem(f"and {more} more problems", reported[-1].where))
        raise UserError(reported)


def contents(path: Path) -> bytes:
    """The bytes of the file at ``path``; a UserError if it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        how = "give its path relative to the scenario's folder"
        raise UserError(Problem("there is no such trace", str(path), how)) from error
    except (OSError, ValueError) as error:  # a name may contain invalid characters
        raise UserError(Problem(f"cannot be read: {error}", repr(str(path)))) from error
