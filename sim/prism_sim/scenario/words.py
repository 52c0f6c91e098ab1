"""Text for messages: dotted paths and similar words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from prism_sim.scenario.base import Loc

_LISTED = 8


def dotted(loc: Loc) -> str:
    """A location in the scenario, as written on a command line.

    >>> dotted(("jobs", 0, "dp"))
    'jobs.0.dp'
    """
    return ".".join(str(part) for part in loc) or "the scenario"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The most similar word of ``known``, if any is close.

    >>> nearest("fakctor", ["kind", "factor"])
    'factor'
    """
    near = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return near[0] if near else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint: the most similar known word, or the list of known words.

    >>> did_you_mean("xyz", ["rail", "tor"])
    'known here: rail, tor'
    """
    words = list(dict.fromkeys(known))
    near = nearest(word, words)
    if near:
        return f"did you mean {near}?"
    more = ", ..." if len(words) > _LISTED else ""
    return f"known here: {', '.join(words[:_LISTED]) or 'none'}{more}"
