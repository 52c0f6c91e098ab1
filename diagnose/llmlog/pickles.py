"""Plain values from a pickle that anybody may have written, in bounded time and memory.

A pickle is a program. A small one is expensive if it fills a memo far beyond its size, makes many
empty containers, or shares a value so often that it is endless once written out. So its
instructions are counted before they run, and the value before it is used; nothing is imported."""

from __future__ import annotations

import io
import pickle
import pickletools
from typing import Any

MOST_INSTRUCTIONS = 4_000_000
MOST_VALUES = 16_000_000
"""Values, with each of a shared one's, and a piece of text for each :data:`_PIECE` characters."""
_DEEPEST, _PIECE = 64, 64
_PUTS = ("PUT", "BINPUT", "LONG_BINPUT")
_BROKEN = (
    pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, IndexError, KeyError,
    OverflowError, MemoryError,
)  # fmt: skip


class PickleError(ValueError):
    """A pickle is broken, too large, or has more than plain values: the reason."""


def unpickled(data: bytes) -> Any:
    """Return the value of a pickle.

    Raises
    ------
    PickleError : it is broken, too large, or has more than plain values.
    """
    try:
        for count, (code, place, _) in enumerate(pickletools.genops(data), 1):
            beyond = code.name in _PUTS and not 0 <= int(place or 0) < count
            if count > MOST_INSTRUCTIONS or beyond:
                raise PickleError(f"a pickle whose memo or length exceeds {count} instructions")
        value = _PlainOnly(io.BytesIO(data)).load()
    except PickleError:
        raise
    except _BROKEN as error:
        raise PickleError(f"a broken pickle ({error or type(error).__name__})") from None
    check_values(value)
    return value


class _PlainOnly(pickle.Unpickler):
    """Builds no objects: whatever a pickle would import is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}; only plain types are read")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to objects outside")


def check_values(value: Any) -> None:
    """Refuse a value that contains itself, is nested too deep, or has too many values in all.

    Raises
    ------
    PickleError : it does.
    """
    _size(value, 0, {})


def _size(one: Any, depth: int, sizes: dict[int, int]) -> int:
    if isinstance(one, str | bytes):
        return 1 + len(one) // _PIECE
    if not isinstance(one, dict | list | tuple | set | frozenset):
        return 1
    if depth > _DEEPEST or sizes.get(id(one)) == 0:
        raise PickleError("values that are nested too deep, or contain themselves")
    if id(one) not in sizes:
        sizes[id(one)] = 0
        parts = [*one, *one.values()] if isinstance(one, dict) else one
        sizes[id(one)] = 1 + sum(_size(part, depth + 1, sizes) for part in parts)
    if sizes[id(one)] > MOST_VALUES:
        raise PickleError(f"more than {MOST_VALUES} values, most of them shared")
    return sizes[id(one)]
