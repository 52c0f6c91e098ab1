"""Text for messages: dotted paths and similar words."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from prism_sim.scenario.base import Loc


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


def in_yaml_words(message: str) -> str:
    """A message of pydantic in the words of a scenario file.

    >>> in_yaml_words("Input should be a valid tuple")
    'should be a list'
    >>> in_yaml_words("Input should be a valid dictionary or instance of Job")
    'should be a mapping (key: value)'
    """
    message = message.replace("Input should", "should", 1)
    for words, plain in _YAML_WORDS.items():
        message = re.sub(words, plain, message)
    return message


_YAML_WORDS = {
    r"a valid (tuple|list|set|frozenset|array)": "a list",
    r"a valid (dictionary|mapping|dict)( or .*)?": "a mapping (key: value)",
    r"a valid (string|str)": "text",
    r"a valid (integer|int)": "a whole number",
    r"a valid (number|float)": "a number",
    r"a valid boolean": "true or false",
    r", unable to parse string as an? (\w+)": "",
    r"^(List|Tuple|Dictionary|Set) should": "should",
    r"\bNone\b": "null",
}
"""Words of pydantic for types of Python, and what they are in YAML."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint: the most similar known word, or the list of known words.

    >>> did_you_mean("xyz", ["rail", "tor"])
    'known here: rail, tor'
    """
    words = list(dict.fromkeys(known))
    near = nearest(word, words)
    if near:
        return f"did you mean {near}?"
    return f"known here: {', '.join(words) or 'none'}"
