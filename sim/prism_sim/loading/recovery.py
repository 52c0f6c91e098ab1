"""Checks of a scenario that is partly invalid.

A misspelt key in one place should not hide that a job elsewhere is too large. So invalid
parts are removed (unknown keys, ill-formed faults) or replaced by placeholders (ill-formed
values), and the rest is checked as usual. Problems that depend on a removed or replaced value
are not reported.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from prism_sim.loading.complaints import field_at, model_at, plain_loc
from prism_sim.loading.foreign import own_name
from prism_sim.loading.scenario import Scenario
from prism_sim.scenario.base import Loc, Remark
from prism_sim.scenario.words import nearest

_STAND_INS: dict[Loc, Any] = {
    ("cluster",): {"servers": 65_536},
    ("cluster", "servers"): 65_536,
    ("jobs", "name"): "?",
    ("jobs", "model"): "llama-7b",
    ("jobs", "micro_batches"): 1_000_000,
    ("jobs", "steps"): 1_000_000_000,
}
"""Placeholders for keys without a default, so small that nothing is too large or too late."""


@dataclass(frozen=True)
class Understood:
    """The valid part of a scenario.

    Attributes
    ----------
    scenario : that part, with placeholders; None if too little is left.
    values : the values it was read from.
    doubtful : locations of removed and replaced values.
    fault_indices : for each fault of ``scenario``, its index in the file.
    """

    scenario: Scenario | None
    values: dict[str, Any]
    doubtful: frozenset[Loc]
    fault_indices: tuple[int, ...]

    def trusted(self, remarks: Iterable[Remark]) -> Iterator[Remark]:
        """The remarks that do not depend on doubtful values, with locations in the file."""
        for remark in remarks:
            loc = self._in_file(remark.loc)
            inside = any(_leads_to(bad, loc) for bad in self.doubtful)
            if not inside and not any(map(self._doubts, map(self._in_file, remark.reads))):
                yield Remark(loc, remark.what, remark.how)

    def _in_file(self, loc: Loc) -> Loc:
        match loc:
            case ("faults", int(index), *rest):
                return ("faults", self.fault_indices[index], *rest)
        return loc

    def _doubts(self, loc: Loc) -> bool:
        return any(_leads_to(bad, loc) or _leads_to(loc, bad) for bad in self.doubtful)


def _leads_to(above: Loc, below: Loc) -> bool:
    return below[: len(above)] == above


def understood(values: dict[str, Any], errors: list[ErrorDetails]) -> Understood:
    """Read the valid part of ``values``, given pydantic's errors."""
    corrected = copy.deepcopy(values)
    doubtful: set[Loc] = set()
    for error in errors:
        if error["loc"][:1] != ("faults",):
            doubtful.add(_correct(corrected, values, error))
    kept = _well_formed_faults(values, errors)
    corrected["faults"] = [values["faults"][index] for index in kept]
    try:
        scenario = Scenario.model_validate(corrected)
    except ValidationError:
        return Understood(None, {}, frozenset(), ())
    return Understood(scenario, corrected, frozenset(doubtful), kept)


def _well_formed_faults(values: dict[str, Any], errors: list[ErrorDetails]) -> tuple[int, ...]:
    faults = values.get("faults")
    bad = {error["loc"][1] for error in errors if error["loc"][:1] == ("faults",) != error["loc"]}
    every = range(len(faults)) if isinstance(faults, list) else ()
    return tuple(index for index in every if index not in bad)


def _correct(corrected: dict[str, Any], values: dict[str, Any], error: ErrorDetails) -> Loc:
    """Remove or replace the value of ``error``; returns the location that is now doubtful."""
    if error["type"] == "extra_forbidden":
        loc = plain_loc(error["loc"], values)
        _holder(corrected, loc).pop(loc[-1], None)
        model = model_at(error["loc"][:-1])
        own = own_name(str(loc[-1]))
        meant = own[0] if own else nearest(str(loc[-1]), model.model_fields if model else ())
        return (*loc[:-1], meant or loc[-1])
    for length in range(len(error["loc"]), 0, -1):
        loc = plain_loc(error["loc"][:length], values)
        field = field_at(error["loc"][:length])
        shape = tuple(part for part in loc if isinstance(part, str))
        if shape in _STAND_INS:
            _holder(corrected, loc)[loc[-1]] = copy.deepcopy(_STAND_INS[shape])
            return loc
        if field and not field.is_required():
            _holder(corrected, loc).pop(loc[-1], None)
            return loc
    return ()


def _holder(corrected: Any, loc: Loc) -> dict[Any, Any]:
    """The container of ``loc``; an empty one if it was replaced before."""
    for part in loc[:-1]:
        if (isinstance(corrected, dict) and part not in corrected) or isinstance(corrected, str):
            return {}
        corrected = corrected[part]
    return corrected if isinstance(corrected, dict) else {}
