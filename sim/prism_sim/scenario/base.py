"""What every part of a scenario has in common.

A scenario is written once by hand and read by everything after that, so its models are
closed (a misspelt key is an error, not a silently ignored wish) and frozen (nothing
downstream can change the question it was asked).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

Loc = tuple[str | int, ...]
"""The way from the top of a scenario to one of its values: ``("jobs", 0, "dp")``."""


class Closed(BaseModel):
    """A frozen model that refuses keys it does not know, and infinities."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Python counts True as 1; a scenario that says ``dp: true`` is mistaken."""
        wanted = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and wanted is not bool:
            raise ValueError(f"{str(value).lower()} is neither a number nor a name")
        return value


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
