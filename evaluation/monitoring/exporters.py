"""Exporters that send the records of a simulation as IPFIX datagrams over UDP.

Each leaf is an exporter with an address of its own on the loopback. It sends a record when its flow
has ended. A restart forgets the sequence number, as a switch that boots does, and sends the
template again.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

import pandas as pd

from prism_sim.exporters.netflow import ipfix_messages


@dataclass
class Exporter:
    """One switch; ``host`` is its address on the loopback."""

    host: str
    port: int
    _sequence: int = 0
    _socket: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((self.host, 0))

    def restart(self) -> None:
        """Begin again, as after a boot."""
        self._sequence = 0

    def send(self, records: pd.DataFrame) -> None:
        """Send flow records."""
        for message in ipfix_messages(records, self._sequence):
            self._socket.sendto(message, ("127.0.0.1", self.port))
        self._sequence = (self._sequence + len(records)) % 2**32

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
