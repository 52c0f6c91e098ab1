"""The encoding of protocol buffers: a message is a series of fields.

A field is a number, with the type of the value in its lowest three bits, and then the value: a
number of seven bits in each byte, bytes after their length, or four or eight bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _WIDE, _BYTES, _NARROW = 0, 1, 2, 5  # types of values
_FIXED = {_WIDE: 8, _NARROW: 4}
_MOST_BITS, _LARGEST = 63, (1 << 64) - 1  # of a number: before its last byte, and of all


def fields_of(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field; those of four or eight bytes are left out.

    Raises
    ------
    IndexError, ValueError : the message is damaged.
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
            raise ValueError(f"no field has the type {kind}")
        if place + length > len(message):
            raise ValueError("a field is longer than its message")
        if kind == _BYTES:
            yield number, message[place : place + length]
        place += length


def varint(content: bytes, place: int) -> tuple[int, int]:
    """A number of seven bits in each byte, and the place after it.

    Raises
    ------
    IndexError, ValueError : it does not end, or is too large.
    """
    value = shift = 0
    while True:
        byte = content[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _LARGEST, place
        shift += 7
        if shift > _MOST_BITS:
            raise ValueError(shift)
