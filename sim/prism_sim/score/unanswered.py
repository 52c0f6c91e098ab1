"""Tables that a method leaves out are questions that it does not answer, and no wrong answers.

The figures that judge such a table are undefined. Counts of the truth stay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from types import NoneType
from typing import Any, get_args

from prism_sim.score.declare import Figure, declarations

NOT_ANSWERED = "not answered"
"""What is shown in place of a figure."""

JUDGED_BY: Mapping[str, tuple[str, ...]] = {
    "jobs": ("jobs",),
    "pairs": ("pairs",),
    "parallelism": ("groups", "layouts"),
    "timeline": ("steps",),
    "faults": ("findings",),
}
"""For each part of a score the tables of which one answers it."""

OF_SPANS = ("dp_time_", "pp_time_", "compute_time_")
"""How the names of figures of the timeline begin that the table ``spans`` answers."""


def is_unanswered(path: str, left_out: Collection[str]) -> bool:
    """Whether a method that left out these tables does not answer the figure ``path``.

    >>> is_unanswered("pairs.accuracy", ["pairs"]), is_unanswered("jobs.accuracy", ["pairs"])
    (True, False)
    >>> is_unanswered("timeline.pp_time_error_mean", ["spans"])
    True
    """
    part, _, rest = path.partition(".")
    of_spans = any(name.startswith(OF_SPANS) for name in rest.split("."))
    if part == "timeline" and of_spans and "spans" in left_out:
        return True
    return part in JUDGED_BY and set(JUDGED_BY[part]) <= {*left_out}


def undefined(value: Any, path: str, left_out: Collection[str]) -> Any:
    """``value``, a part of a score at ``path``, without the figures that are not answered."""
    if isinstance(value, dict):
        return {key: undefined(one, path, left_out) for key, one in value.items()}
    if isinstance(value, list):
        return [undefined(one, path, left_out) for one in value]
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    changed: dict[str, Any] = {}
    for name, hint, declaration in declarations(type(value)):
        place, known = f"{path}.{name}", getattr(value, name)
        judged = not isinstance(declaration, Figure) or declaration.is_judged
        optional = {float, NoneType} == {*get_args(hint)}
        if optional and judged and is_unanswered(place, left_out):
            changed[name] = None
        else:
            changed[name] = undefined(known, place, left_out)
    return dataclasses.replace(value, **changed)
