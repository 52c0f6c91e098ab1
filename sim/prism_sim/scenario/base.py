"""What every part of a scenario has in common.

A scenario is written once by hand and read by everything after that, so its models are
closed (a misspelt key is an error, not a silently ignored wish) and frozen (nothing
downstream can change the question it was asked).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

Loc = tuple[str | int, ...]
"""The way from the top of a scenario to one of its values: ``("jobs", 0, "dp")``."""


class Closed(BaseModel):
    """A frozen model that refuses keys it does not know, and infinities."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True)
class Remark:
    """Something a check has to say about the value at ``loc``.

    Attributes
    ----------
    loc : the value it is about.
    what : what is wrong, with the offending values.
    how : how to mend it.
    reads : further values the remark rests on; it is void if one of them is itself invalid.
    """

    loc: Loc
    what: str
    how: str = ""
    reads: tuple[Loc, ...] = ()


Remarks = Iterator[Remark]
