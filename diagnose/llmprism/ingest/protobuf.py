"""The fields of a message of protocol buffers, without a description of its type."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from prism_common.untrusted import OutsideError

_NUMBER, _BYTES = 0, 2  # types of values on the wire


def fields_of(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field; those of four or eight bytes are left out.

    Raises
    ------
    OutsideError : the message is damaged.
    """
    try:
        parsed = Empty.FromString(message)
    except DecodeError as error:
        raise OutsideError(f"no message of protocol buffers: {error}") from error
    fields = UnknownFieldSet(parsed)
    for field in (fields[place] for place in range(len(fields))):
        if field.wire_type in (_NUMBER, _BYTES):
            yield field.field_number, field.data
