"""Messages of goflow2 in its binary format: protocol buffers, each after its length.

goflow2 writes them to a file or to Kafka with ``-format bin``. A time that goflow2 does not know is
left out: then that of arrival at the collector counts. Counts are not scaled by goflow2, so they
are multiplied by the sampling rate here. Field numbers: ``FlowMessage`` in ``pb/flow.proto`` of
goflow2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_address
from typing import IO

import pyarrow as pa
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from llmprism.ingest.options import Options
from llmprism.ingest.readers import register
from llmprism.ingest.records import BATCH_ROWS
from llmprism.ingest.sources import BROKEN, Source
from llmprism.ingest.tables import convert
from llmprism.io.notes import Notes
from prism_common.untrusted import OutsideError, read_exactly, read_varint, varint

_NUMBERS = {3: "sampling_rate", 9: "bytes", 10: "packets", 20: "protocol", 21: "src_port"}
_NUMBERS |= {22: "dst_port", 110: "received_ns", 111: "start_ns", 112: "end_ns"}
_ADDRESSES = {6: "src", 7: "dst", 11: "observer"}
_COLUMNS = (*_NUMBERS.values(), *_ADDRESSES.values())
_CHOSEN = {name: name for name in _COLUMNS if name not in ("received_ns", "sampling_rate")}
_CHOSEN |= {"sampling": "sampling_rate"}
_TYPES = dict.fromkeys(_NUMBERS.values(), pa.uint64())
_TYPES |= dict.fromkeys((*_ADDRESSES.values(), "protocol"), pa.string())
_PROTOCOL = 20
_LONGEST = 1 << 16  # bytes of a message

Fields = dict[str, int | str]


def delimited(message: bytes) -> bytes:
    """A message of Kafka with its length before it, as it has it already or not.

    Raises
    ------
    OutsideError : it is longer than a message may be.
    """
    try:
        length, place = varint(message, 0)
        if place + length == len(message):
            return message
    except OutsideError:
        pass  # no length is before it
    if len(message) > _LONGEST:
        raise OutsideError(f"a message of {len(message)} bytes")
    prefix, rest = bytearray(), len(message)
    while rest > 0x7F:
        prefix.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*prefix, rest]) + message


def _recognises(head: bytes, _name: str) -> bool:
    try:
        length, place = varint(head, 0)
        fields = _fields(head[place : place + length])
    except ValueError:
        return False
    return 0 < length <= len(head) - place and {"src", "dst", "received_ns"} <= fields.keys()


@register("goflow2_protobuf", "binary messages of goflow2", _recognises)
def read(source: Source, options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records of a file of messages."""
    options = replace(options, time_unit="ns")
    rows: list[Fields] = []
    with source.open() as file:
        try:
            for message in _messages(file):
                rows += _rows(message, notes)
                if len(rows) >= BATCH_ROWS:
                    yield convert(_table(rows), _CHOSEN, options)
                    rows = []
        except (*BROKEN, ValueError):
            notes.drop("file not read to its end")
    yield convert(_table(rows), _CHOSEN, options)


def _messages(file: IO[bytes]) -> Iterator[bytes]:
    while (length := read_varint(file)) is not None:
        yield read_exactly(file, length, _LONGEST)


def _rows(message: bytes, notes: Notes) -> list[Fields]:
    """The record of a message; none if it is damaged."""
    try:
        fields = _fields(message)
    except ValueError:
        notes.drop("message that is none of goflow2")
        return []
    received_ns = fields.get("received_ns", 0)
    return [{"start_ns": received_ns, "end_ns": received_ns, **fields}]


def _fields(message: bytes) -> Fields:
    """The fields that matter.

    Raises
    ------
    ValueError : the message is damaged.
    """
    found: Fields = {}
    for number, value in fields_of(message):
        if isinstance(value, int):
            if number in _NUMBERS:
                found[_NUMBERS[number]] = str(value) if number == _PROTOCOL else value
        elif number in _ADDRESSES and value:
            found[_ADDRESSES[number]] = str(ip_address(value))
    return found


def _table(rows: list[Fields]) -> pa.Table:
    return pa.table(
        {name: pa.array([row.get(name) for row in rows], _TYPES[name]) for name in _COLUMNS}
    )


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
