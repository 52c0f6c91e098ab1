"""Words for messages: the way to a value, and the word that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from prism_sim.scenario.base import Loc

_LISTED = 8


def dotted(loc: Loc) -> str:
    """A way through the scenario as it is written on a command line.

    >>> dotted(("jobs", 0, "dp"))
    'jobs.0.dp'
    """
    return ".".join(str(part) for part in loc) or "the scenario"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The word of ``known`` that ``word`` was probably meant to be, if any is close.

    >>> nearest("fakctor", ["kind", "factor"])
    'factor'
    """
    near = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return near[0] if near else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint: the nearest known word, or else what there is to choose from.

    >>> did_you_mean("xyz", ["rail", "tor"])
    'known here: rail, tor'
    """
    words = list(dict.fromkeys(known))
    near = nearest(word, words)
    if near:
        return f"did you mean {near}?"
    more = ", ..." if len(words) > _LISTED else ""
    return f"known here: {', '.join(words[:_LISTED]) or 'none'}{more}"
