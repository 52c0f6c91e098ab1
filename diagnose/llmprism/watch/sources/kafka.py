"""A Kafka topic: flow records of goflow2 as JSON or binary, or what the inlet of Akvorado 2 sends.

Offsets are kept in the state of the monitor, together with the records, and not in Kafka: so no
message is lost, and none counts twice. Producers spread records over the partitions, so time has
only come as far as in the partition that is furthest behind. A partition that was read to its end
holds nothing back.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from llmprism.watch.sources import Taken, register
from llmprism.watch.sources.messages import Messages
from prism_common.errors import Problem, UserError
from prism_common.untrusted import OutsideError, whole

_MOST_MESSAGES = 200_000  # taken together
_AT_ONCE = 10_000
_TIMEOUT_S = 10.0
_MS_NS = 1_000_000
_EXTRA = "pip install 'llmprism[kafka]'"


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
        self._topic = topic
        self._messages = Messages(folder)
        self._partitions = self._found(brokers)
        self._next: dict[str, int] | None = None  # offsets that come next, once they are assigned
        self._latest_ns: dict[str, int] = {}

    def take(self, position: Any, wait_s: float) -> Taken:
        """Return the messages behind the offsets in ``position``."""
        wanted = _offsets(position)
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
                    self._latest_ns[partition] = _time_of(message)
                    lines.append(message.value() or b"")
        self._next = following
        if not lines:
            return Taken([], following)
        files, refused = self._messages.files(lines)
        watermark_ns = self._watermark(following)
        return Taken(files, following, refused=refused, watermark_ns=watermark_ns)

    def stored(self, taken: Taken) -> None:
        """Remove the file."""
        for file in taken.files:
            file.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Leave the brokers."""
        self._consumer.close()

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


def _offsets(position: Any) -> dict[str, int]:
    """The offsets in a state; none before the first message."""
    try:
        return {str(one): whole(offset) for one, offset in (position or {}).items()}
    except (AttributeError, OutsideError) as error:
        what = "the state is that of another source: it holds no offsets of a topic"
        raise UserError(Problem(what, "--state", "name another folder with --state")) from error


def _time_of(message: Any) -> int:
    """When a message was written, as its producer says; no later than now [ns]."""
    return min(max(int(message.timestamp()[1]), 0) * _MS_NS, time.time_ns())


@register("kafka", "kafka://BROKER:PORT/TOPIC", lambda text: text.startswith("kafka://"))
def open_kafka(text: str, folder: Path) -> KafkaTopic:
    """Open a topic; several brokers are separated by commas."""
    brokers, _, topic = text.removeprefix("kafka://").rstrip("/").partition("/")
    if not brokers or not topic or "/" in topic:
        how = "write it as kafka://broker:9092/topic"
        raise UserError(Problem("this names no topic of Kafka", text, how))
    try:
        return KafkaTopic(brokers, topic, folder / "spool")
    except ModuleNotFoundError as error:
        raise UserError(Problem(f"the package {error.name} is missing", text, _EXTRA)) from error
