"""Messages of a topic as files that readers take, of any writer.

A message is a JSON object of a line, a binary one of goflow2, or a datagram that the inlet of
Akvorado 2 passes on as it came from an exporter, with its time of arrival and the exporter
(``RawFlow`` in ``common/pb/rawflow.proto`` of Akvorado). One that is none of these is counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from llmprism.ingest.readers.goflow2_protobuf import delimited, fields_of
from llmprism.ingest.sources import Source as File
from llmprism.watch.settings import SECOND_NS
from llmprism.watch.sources.captured import NETFLOW, SFLOW, Captured
from prism_common.untrusted import OutsideError

_JSON, _BINARY = ".jsonl", ".bin"  # suffixes of files
_PORT = 2055  # of datagrams whose port is not known


class Messages:
    """Writes messages into a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._captured = Captured(folder / ".templates", _PORT)

    def files(self, messages: Iterable[bytes]) -> tuple[list[File], int]:
        """Write messages to a file for each format; return them, and how many are of none."""
        contents: dict[str, list[bytes]] = {}
        refused = 0
        for message in filter(None, messages):
            try:
                suffix, content = self._readable(message)
            except OutsideError:
                refused += 1
                continue
            contents.setdefault(suffix, []).append(content)
        self._captured.keep()
        files = []
        for suffix, own in contents.items():
            path = self._folder / f"messages{suffix}"
            head = self._captured.head(suffix) if suffix in (NETFLOW, SFLOW) else b""
            path.write_bytes(head + b"".join(own))
            files.append(File(path, point=""))
        return files, refused

    def _readable(self, message: bytes) -> tuple[str, bytes]:
        """A message as a file of its format has it, and the suffix of that file.

        Raises
        ------
        OutsideError : it cannot be one of any format.
        """
        if message[:1] == b"{":
            return _JSON, message.replace(b"\n", b" ") + b"\n"
        datagram = _datagram(message)
        return self._captured.packet(*datagram) if datagram else (_BINARY, delimited(message))


def _datagram(message: bytes) -> tuple[bytes, bytes, int] | None:
    """Exporter, content and arrival [ns] of a datagram that Akvorado passes on; None for others."""
    try:
        fields = dict(fields_of(message))
    except OutsideError:
        return None
    received_s, content, exporter = (fields.get(number) for number in (1, 2, 3))
    if not isinstance(content, bytes) or not isinstance(exporter, bytes):
        return None
    if not isinstance(received_s, int) or len(exporter) not in (4, 16):
        return None
    return exporter, content, received_s * SECOND_NS
