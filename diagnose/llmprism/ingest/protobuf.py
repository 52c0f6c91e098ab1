"""The encoding of protocol buffers: a message is a series of fields.

A field is a number, with the type of the value in its lowest three bits, and then the value: a
number of seven bits in each byte, bytes after their length, or four or eight bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from prism_common.untrusted import OutsideError, varint

_VARINT, _WIDE, _BYTES, _NARROW = 0, 1, 2, 5  # types of values
_FIXED = {_WIDE: 8, _NARROW: 4}


def fields_of(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field; those of four or eight bytes are left out.

    Raises
    ------
    OutsideError : the message is damaged.
    """
    place = 0
    while place < len(message):
        key, place = varint(message, place)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, place = varint(message, place)
            yield number, value
            continue
        if kind == _BYTES:
            length, place = varint(message, place)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise OutsideError(f"no field has the type {kind}")
        if place + length > len(message):
            raise OutsideError("a field is longer than its message")
        if kind == _BYTES:
            yield number, message[place : place + length]
        place += length
