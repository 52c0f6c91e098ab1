"""A number or a length from outside, before anything is done with it.

What a file, a message or a client says may be anything: a length of 2**63 bytes, a line without an
end, a rank of 1e400. Each function here returns a value within its bounds, or raises an
:class:`OutsideError`, which is a ``ValueError``; nothing is allocated before the bounds were looked
at.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import IO, Any

VARINT_BYTES = 10
"""Of a number of 64 bits, seven in each byte."""
LONGEST_LINE = 65_536
"""Bytes of a line of text."""
_MOST_64 = 0xFFFF_FFFF_FFFF_FFFF


class OutsideError(ValueError):
    """A value from outside is not what it should be."""


def whole(value: object, least: int = 0, most: int = (1 << 63) - 1) -> int:
    """Return a whole number from JSON or from text.

    >>> whole("7"), whole(7.0)
    (7, 7)
    >>> whole(float("inf"))
    Traceback (most recent call last):
    prism_common.untrusted.OutsideError: inf is no whole number from 0 to 9223372036854775807
    """
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        number = int(value)
        if isinstance(value, float) and number != value:
            raise ValueError
    except (ValueError, OverflowError) as error:
        raise _not_within(value, "whole number", least, most) from error
    if not least <= number <= most:
        raise _not_within(value, "whole number", least, most)
    return number


def real(value: object, least: float = -1e300, most: float = 1e300) -> float:
    """Return a finite number from JSON or from text.

    >>> real("0.5")
    0.5
    """
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        number = float(value)
    except (ValueError, OverflowError) as error:
        raise _not_within(value, "number", least, most) from error
    if not math.isfinite(number) or not least <= number <= most:
        raise _not_within(value, "number", least, most)
    return number


def _not_within(value: object, kind: str, least: float, most: float) -> OutsideError:
    shown = value if isinstance(value, int | float) else repr(value)
    return OutsideError(f"{str(shown)[:40]} is no {kind} from {least} to {most}")


def varint(content: bytes, place: int) -> tuple[int, int]:
    """Return a number of seven bits in each byte, the lowest first, and the place after it."""
    value = 0
    for count, byte in enumerate(content[place : place + VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value & _MOST_64, place + count + 1
    raise OutsideError("a number does not end")


def read_varint(stream: IO[bytes]) -> int | None:
    """Read such a number from a stream; None at its end."""
    content = b""
    while byte := stream.read(1):
        content += byte
        if byte[0] < 0x80 or len(content) == VARINT_BYTES:
            return varint(content, 0)[0]
    if content:
        raise OutsideError("a number does not end")
    return None


def read_exactly(stream: IO[bytes], length: int, most: int) -> bytes:
    """Read so many bytes, at most ``most``."""
    if not 0 <= length <= most:
        raise OutsideError(f"{length} bytes, and at most {most} are read")
    content = stream.read(length)
    if len(content) < length:
        raise OutsideError(f"{len(content)} bytes of {length}")
    return content


def lines(stream: IO[bytes], longest: int = LONGEST_LINE) -> Iterator[bytes | None]:
    """Yield each line with its end; None for one that is longer than ``longest``, which is lost."""
    while line := stream.readline(longest + 1):
        if len(line) <= longest or line.endswith(b"\n"):
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(longest + 1)
        yield None


def parsed(text: str | bytes) -> Any:
    """Return the content of JSON; infinite numbers and deep nesting are errors."""
    try:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text), "surrogatepass")
        return _DECODER.decode(text)
    except RecursionError:
        raise OutsideError("nested too deep") from None
    except OutsideError:
        raise
    except ValueError as error:
        raise OutsideError(f"broken JSON ({error})") from None


def _refuse_constant(name: str) -> None:
    raise OutsideError(f"{name} is no number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
