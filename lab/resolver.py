"""A name server for one network: it answers ``s0003`` with the address of that server.

    python -m lab.resolver NAMES.json

NAMES.json holds addresses by name. Other names do not exist. Only the first label counts.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
from pathlib import Path

A_RECORD, NO_ERROR, NO_SUCH_NAME = 1, 0x8180, 0x8183


def answer(query: bytes, names: dict[str, str]) -> bytes:
    """Return the answer to a query with one question (RFC 1035)."""
    number = query[:2]
    place, labels = 12, []
    while length := query[place]:
        labels.append(query[place + 1 : place + 1 + length].decode("ascii", "replace"))
        place += 1 + length
    kind = struct.unpack_from(">H", query, place + 1)[0]
    question = query[12 : place + 5]
    address = names.get(labels[0].lower()) if labels else None
    flags = NO_ERROR if address else NO_SUCH_NAME
    records = b""
    if address and kind == A_RECORD:
        records = b"\xc0\x0c" + struct.pack(">HHIH", A_RECORD, 1, 60, 4)
        records += socket.inet_aton(address)
    head = struct.pack(">HHHHH", flags, 1, 1 if records else 0, 0, 0)
    return number + head + question + records


def serve(names: dict[str, str]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
        port.bind(("0.0.0.0", 53))
        while True:
            query, sender = port.recvfrom(512)
            try:
                port.sendto(answer(query, names), sender)
            except (IndexError, struct.error):  # no query: not answered
                continue


if __name__ == "__main__":
    serve(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
