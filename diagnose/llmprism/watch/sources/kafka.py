"""A Kafka topic: flow records of goflow2 as JSON or binary, or what the inlet of Akvorado 2 sends.

That inlet passes datagrams on as they came from exporters, each in a binary message with the time
of arrival and the exporter (``RawFlow`` in ``common/pb/rawflow.proto`` of Akvorado).

Offsets are kept in the state of the monitor, together with the records, and not in Kafka: so no
message is lost, and none counts twice. Producers spread records over the partitions, so time has
only come as far as in the partition that is furthest behind. A partition that was read to its end
holds nothing back.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from llmprism.ingest.protobuf import fields_of
from llmprism.ingest.readers.goflow2_protobuf import delimited
from llmprism.ingest.sources import Source as File
from llmprism.watch.settings import SECOND_NS
from llmprism.watch.sources import Taken, register
from llmprism.watch.sources.captured import NETFLOW, SFLOW, Captured
from prism_common.errors import Problem, UserError

_MOST_MESSAGES = 200_000  # taken together
_AT_ONCE = 10_000
_TIMEOUT_S = 10.0
_MS_NS = 1_000_000
_JSON, _BINARY = ".jsonl", ".bin"  # suffixes of files
_PORT = 2055  # of datagrams whose port is not known
_EXTRA = "pip install 'prism-sim[kafka]'"


class KafkaTopic:
    """All partitions of one topic, read by this monitor alone."""

    def __init__(self, brokers: str, topic: str, folder: Path) -> None:
        import confluent_kafka

        self._kafka: Any = confluent_kafka
        settings = {
            "bootstrap.servers": brokers,
            "group.id": "llmprism-watch",  # the client asks for one; nothing is committed
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        self._consumer: Any = confluent_kafka.Consumer(settings)
        folder.mkdir(parents=True, exist_ok=True)
        self._topic, self._folder = topic, folder
        self._captured = Captured(folder / ".templates", _PORT)
        self._partitions = self._found(brokers)
        self._next: dict[str, int] | None = None  # offsets that come next, once they are assigned
        self._latest_ns: dict[str, int] = {}

    def take(self, position: Any, wait_s: float) -> Taken:
        """Return the messages behind the offsets in ``position``."""
        wanted: dict[str, int] = position or {}
        if self._next is None or wanted != self._next:
            self._assign(wanted)
        following = dict(wanted)
        lines: list[bytes] = []
        while len(lines) < _MOST_MESSAGES:
            messages = self._consumer.consume(_AT_ONCE, 0.1 if lines else wait_s)
            if not messages:
                break
            for message in messages:
                if message.error() is None:
                    partition = str(message.partition())
                    following[partition] = message.offset() + 1
                    self._latest_ns[partition] = message.timestamp()[1] * _MS_NS
                    lines.append(message.value() or b"")
        self._next = following
        if not lines:
            return Taken([], following)
        files = self._written(lines)
        return Taken(files, following, watermark_ns=self._watermark(following))

    def stored(self, taken: Taken) -> None:
        """Remove the file."""
        for file in taken.files:
            file.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Leave the brokers."""
        self._consumer.close()

    def _written(self, messages: list[bytes]) -> list[File]:
        """Write messages to files that readers of the formats take."""
        contents: dict[str, list[bytes]] = {}
        for message in filter(None, messages):
            suffix, content = self._readable(message)
            contents.setdefault(suffix, []).append(content)
        files = []
        for suffix, own in contents.items():
            path = self._folder / f"messages{suffix}"
            head = self._captured.head(suffix) if suffix in (NETFLOW, SFLOW) else b""
            path.write_bytes(head + b"".join(own))
            files.append(File(path, point=""))
        return files

    def _readable(self, message: bytes) -> tuple[str, bytes]:
        """A message as a file of its format has it, and the suffix of that file."""
        if message[:1] == b"{":
            return _JSON, message.replace(b"\n", b" ") + b"\n"
        datagram = _datagram(message)
        return self._captured.packet(*datagram) if datagram else (_BINARY, delimited(message))

    def _found(self, brokers: str) -> list[int]:
        try:
            topics = self._consumer.list_topics(self._topic, _TIMEOUT_S).topics
        except self._kafka.KafkaException as error:
            what = f"cannot reach Kafka: {error.args[0].str()}"
            raise UserError(Problem(what, brokers, "check the address of the brokers")) from error
        found = topics[self._topic]
        if found.error is not None or not found.partitions:
            raise UserError(Problem(f"there is no topic {self._topic!r}", brokers))
        return sorted(found.partitions)

    def _assign(self, offsets: dict[str, int]) -> None:
        beginning = self._kafka.OFFSET_BEGINNING
        self._consumer.assign(
            [
                self._kafka.TopicPartition(self._topic, one, offsets.get(str(one), beginning))
                for one in self._partitions
            ]
        )

    def _watermark(self, following: dict[str, int]) -> int | None:
        """Time up to which all partitions that hold more have been read [ns]."""
        behind = []
        for partition, offset in following.items():
            one = self._kafka.TopicPartition(self._topic, int(partition))
            _, end = self._consumer.get_watermark_offsets(one, cached=True)
            if offset < end and partition in self._latest_ns:
                behind.append(self._latest_ns[partition])
        return min(behind, default=None)


def _datagram(message: bytes) -> tuple[bytes, bytes, int] | None:
    """Exporter, content and arrival [ns] of a datagram that Akvorado passes on; None for others."""
    try:
        fields = dict(fields_of(message))
    except (IndexError, ValueError):
        return None
    received_s, content, exporter = (fields.get(number) for number in (1, 2, 3))
    if not isinstance(content, bytes) or not isinstance(exporter, bytes):
        return None
    if not isinstance(received_s, int) or len(exporter) not in (4, 16):
        return None
    return exporter, content, received_s * SECOND_NS


@register("kafka", "kafka://BROKER:PORT/TOPIC", lambda text: text.startswith("kafka://"))
def open_kafka(text: str, folder: Path) -> KafkaTopic:
    """Open a topic; several brokers are separated by commas."""
    parts = urlsplit(text)
    topic = parts.path.strip("/")
    if not parts.netloc or not topic or "/" in topic:
        how = "write it as kafka://broker:9092/topic"
        raise UserError(Problem("this names no topic of Kafka", text, how))
    try:
        return KafkaTopic(parts.netloc, topic, folder / "spool")
    except ModuleNotFoundError as error:
        raise UserError(Problem(f"the package {error.name} is missing", text, _EXTRA)) from error
