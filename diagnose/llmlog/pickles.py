"""Plain values from a pickle that anybody may have written, in bounded time and memory.

A pickle is a program. Three things make a small one expensive: instructions that fill a memo far
beyond its size, many instructions that each make an empty container, and a value that is shared so
often that it is endless once written out. So the instructions are looked at before they are run,
and the value before it is used; only numbers, text, lists, tuples, sets and dictionaries are built.
The instructions are those of :mod:`pickletools`.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

MOST_INSTRUCTIONS = 16_000_000
MOST_VALUES = 16_000_000
"""Values, with each of a shared one's, and a piece of text for each :data:`_PIECE` characters."""
_DEEPEST = 64
_PIECE = 64

_ALONE = b"()]}atesu012.Nld\x85\x86\x87\x88\x89\x8f\x90\x91\x94"
_FIXED = {b"\x80": 1, b"\x95": 8, b"J": 4, b"K": 1, b"M": 2, b"G": 8, b"h": 1, b"j": 4, b"q": 1}
_COUNTED = {b"X": 4, b"\x8c": 1, b"\x8d": 8, b"B": 4, b"C": 1, b"\x8e": 8, b"T": 4, b"U": 1}
_COUNTED |= {b"\x8a": 1, b"\x8b": 4, b"\x96": 8}
_LINES = b"ILFSVg"
_PUTS = {b"q": 1, b"r": 4}  # into a place of the memo
_FIXED |= _PUTS

_SIZES = [-1] * 256  # bytes after an instruction; -1: something else
for _code in _ALONE:
    _SIZES[_code] = 0
for _key, _size in _FIXED.items():
    _SIZES[_key[0]] = _size
_COUNTS = {key[0]: size for key, size in _COUNTED.items()}
_INTO_MEMO = {key[0]: size for key, size in _PUTS.items()}


class PickleError(ValueError):
    """A pickle is broken, too large, or has more than plain values: the reason."""


def unpickled(data: bytes) -> Any:
    """Return the value of a pickle.

    Raises
    ------
    PickleError : it is broken, too large, or has more than plain values.
    """
    _check_instructions(data)
    try:
        value = _PlainOnly(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError) as error:
        raise PickleError(f"a pickle that cannot be read ({error})") from None
    except (IndexError, KeyError, OverflowError, MemoryError) as error:
        raise PickleError(f"a broken pickle ({type(error).__name__})") from None
    check_values(value)
    return value


class _PlainOnly(pickle.Unpickler):
    """Builds no objects: whatever a pickle would import is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}; only plain types are read")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to objects outside")


def _check_instructions(data: bytes) -> None:
    """Refuse too many instructions, and places of the memo beyond them.

    Those that make no plain value end the check: the loader refuses them there.
    """
    place = count = 0
    end, sizes = len(data), _SIZES
    while place < end:
        code = data[place]
        count += 1
        if code in _INTO_MEMO:
            _check_memo(int.from_bytes(data[place + 1 : place + 1 + sizes[code]], "little"), count)
        size = sizes[code]
        if size >= 0:
            place += 1 + size
        elif code in _COUNTS:
            width = _COUNTS[code]
            place += 1 + width + int.from_bytes(data[place + 1 : place + 1 + width], "little")
        elif code in _LINES or code == 0x70:
            start, place = place + 1, data.find(b"\n", place) + 1 or end
            if code == 0x70:  # PUT: its place as text
                text = data[start : place - 1]
                _check_memo(int(text) if text.isdigit() and len(text) < 20 else -1, count)
        else:
            return
        if count > MOST_INSTRUCTIONS:
            raise PickleError(f"a pickle of more than {MOST_INSTRUCTIONS} instructions")
        if code == 0x2E:  # STOP
            return
    if place > end:
        raise PickleError("a pickle that is cut off")


def _check_memo(place: int, count: int) -> None:
    if not 0 <= place < count:
        raise PickleError(f"a pickle that memorises in place {place} after {count} instructions")


def check_values(value: Any) -> None:
    """Refuse a value that contains itself, is nested too deep, or has too many values in all.

    Raises
    ------
    PickleError : it does.
    """
    sizes: dict[int, int] = {}

    def size_of(one: Any, depth: int) -> int:
        if isinstance(one, str | bytes):
            return 1 + len(one) // _PIECE
        if not isinstance(one, dict | list | tuple | set | frozenset):
            return 1
        known = sizes.get(id(one))
        if known is not None:
            if not known:
                raise PickleError("a value that contains itself")
            return known
        if depth > _DEEPEST:
            raise PickleError("values that are nested too deep")
        sizes[id(one)] = 0
        total = 1 + sum(size_of(each, depth + 1) for each in one)
        if isinstance(one, dict):
            total += sum(size_of(each, depth + 1) for each in one.values())
        sizes[id(one)] = total
        if total > MOST_VALUES:
            raise PickleError(f"more than {MOST_VALUES} values, most of them shared")
        return total

    size_of(value, 0)
