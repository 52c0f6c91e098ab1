"""Base classes of all parts of a scenario.

A scenario is written once and read by all later stages, so its models are closed (a misspelt
key is an error, and is not ignored silently) and frozen (no later stage can change them).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

Loc = tuple[str | int, ...]
"""The path from the top of a scenario to one of its values: ``("jobs", 0, "dp")``."""


class Closed(BaseModel):
    """A frozen model that refuses unknown keys and infinite numbers."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True)
class Remark:
    """An error or warning about the value at ``loc``.

    Attributes
    ----------
    loc : location of the value.
    what : description of the problem, with the wrong values.
    how : how to correct it.
    reads : other values that the remark depends on; it is dropped if one of them is invalid.
    """

    loc: Loc
    what: str
    how: str = ""
    reads: tuple[Loc, ...] = ()


Remarks = Iterator[Remark]
