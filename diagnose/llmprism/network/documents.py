"""YAML from an unknown source, as plain values.

Aliases repeat values: a short file can stand for more of them than fit into memory. They are
counted before anything goes through them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from prism_common.errors import Problem, UserError

_MOST_VALUES = 1 << 22


def load_yaml(text: str, where: str) -> Any:
    """Return the values of a YAML document.

    Raises
    ------
    UserError : for text that is no YAML, or that stands for more than four million values.
    """
    with refused(where):
        content = yaml.safe_load(text)
        if _values(content, {}) > _MOST_VALUES:
            raise UserError(Problem(f"its aliases repeat more than {_MOST_VALUES:,} values", where))
    return content


@contextmanager
def refused(where: str, how: str = "") -> Iterator[None]:
    """Turn whatever reading YAML raises into an error of the user; ``how`` is the remedy."""
    try:
        yield
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{where}:{mark.line + 1}" if mark else where
        first = str(getattr(error, "problem", None) or error).splitlines()[0]
        raise UserError(Problem(f"not valid YAML: {first}", place, how)) from error
    except (ValueError, RecursionError, OverflowError, TypeError) as error:
        raise UserError(Problem(f"not valid YAML: {error}", where, how)) from error


def _values(node: Any, counted: dict[int, int]) -> int:
    """Return how many values a node stands for, those that aliases repeat included."""
    if not isinstance(node, (dict, list)):
        return 1
    if id(node) not in counted:
        below = node.values() if isinstance(node, dict) else node
        counted[id(node)] = 1 + sum(_values(one, counted) for one in below)
    return counted[id(node)]
