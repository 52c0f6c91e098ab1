"""Messages between pipeline stages: their path, their order, and their spans in the truth.

A message is for a *mailbox* of its receiver: that of a pass, or of evaluations. Its sender and its
receiver reach it by their :class:`Mail`. There are two kinds. Receives that are posted ahead
need no agreement, so compiled code handles these messages. With a rendezvous, both sides
exchange control messages first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import simpy

from prism_sim.cluster.fabric import Fabric
from prism_sim.training.rendezvous import Rendezvous
from prism_sim.truth import SpanLog

MESSAGE_SPANS = (("send_act", "recv_act"), ("send_grad", "recv_grad"))
"""Kinds of the spans of a message at its sender and its receiver, forward and backward."""


@dataclass(frozen=True)
class MessagePath:
    """The path of a message to another stage: one flow per rank.

    Attributes
    ----------
    bundle : number of the bundle of flows in the fabric.
    latency_ns : latency of the longest path.
    routes : numbers of the flows' routes.
    """

    bundle: int
    latency_ns: int
    routes: tuple[int, ...] = ()


class Message(NamedTuple):
    """A message of ``size_bytes`` on each flow, for a mailbox of its receiver.

    ``kind`` is that of the pass that sends it; None if it is not in the truth.
    """

    mailbox: int
    size_bytes: int
    step: int
    micro_batch: int
    kind: int | None


class Mail(Protocol):
    """The messages of one worker."""

    def receive(self, mailbox: int, step: int, micro_batch: int) -> simpy.Event | None:
        """Post the receive of a message; returns its arrival, None if it has arrived."""

    def send(self, link: int, message: Message) -> None:
        """Send to the worker at the end of ``link``."""

    def abandon(self) -> None:
        """Send nothing that still waits: the process is gone."""


class QueuedMail:
    """Mail whose receives are posted ahead: messages of one path are sent one after the other.

    A reliable connection moves its messages in the order in which it got them: TCP is a stream of
    bytes (RFC 9293), and a queue pair of RDMA processes the requests of its send queue in order
    (InfiniBand Architecture Specification, volume 1). So messages of one connection do not share
    its rate.

    Parameters
    ----------
    fabric, log : of the job.
    mailboxes : the first mailbox of the worker.

    Attributes
    ----------
    queues : number of the queue of each link.
    """

    def __init__(self, fabric: Fabric, log: SpanLog, mailboxes: int) -> None:
        self._fabric = fabric
        self._mailboxes = mailboxes
        self._kinds = [(log.kind(sent), log.kind(received)) for sent, received in MESSAGE_SPANS]
        self.queues: Sequence[int] = ()

    def receive(self, mailbox: int, step: int, micro_batch: int) -> simpy.Event | None:
        return self._fabric.receive(self._mailboxes + mailbox)

    def send(self, link: int, message: Message) -> None:
        mailbox, size_bytes, step, micro_batch, kind = message
        kinds = (-1, -1) if kind is None else self._kinds[kind]
        named = (step, micro_batch, *kinds)
        self._fabric.send(self.queues[link], mailbox, size_bytes, named)

    def abandon(self) -> None:
        for queue in self.queues:
            self._fabric.clear_queue(queue)


class Link(NamedTuple):
    """The way to another worker: its mail, its number in the log, and the path of messages."""

    mail: AgreedMail
    receiver: int
    path: MessagePath


class AgreedMail:
    """Mail whose messages start when sender and receiver are ready.

    Parameters
    ----------
    fabric, log, rendezvous : of the job.
    number : of the worker in the log.
    """

    def __init__(self, fabric: Fabric, log: SpanLog, rendezvous: Rendezvous, number: int) -> None:
        self._fabric = fabric
        self._log = log
        self._rendezvous = rendezvous
        self._number = number
        self._inbox: dict[tuple[int, int, int], simpy.Event] = {}
        self.links: Sequence[Link] = ()

    def receive(self, mailbox: int, step: int, micro_batch: int) -> simpy.Event | None:
        arrival = self._arrival((mailbox, step, micro_batch))
        self._rendezvous.post_receive((self._number, mailbox, step, micro_batch))
        return arrival

    def send(self, link: int, message: Message) -> None:
        to, receiver, path = self.links[link]
        mailbox, size_bytes, step, micro_batch, kind = message
        arrival = to._arrival((mailbox, step, micro_batch))

        def over(start_ns: int, end_ns: int) -> int:
            if kind is not None:
                self._log.add_message(
                    self._number, receiver, step, micro_batch, MESSAGE_SPANS[kind], start_ns,
                    end_ns + path.latency_ns,
                )  # fmt: skip
            return 0

        def start() -> simpy.Event:
            with_header = size_bytes + self._rendezvous.control_bytes
            self._fabric.transfer(path.bundle, with_header, path.latency_ns, arrival, over)
            return arrival

        key = (receiver, mailbox, step, micro_batch)
        self._rendezvous.request_send(key, self._number, receiver, path.routes, start)

    def abandon(self) -> None:
        """Nothing waits at the sender."""

    def _arrival(self, key: tuple[int, int, int]) -> simpy.Event:
        """The event of a message's arrival; created on first use, by sender or receiver."""
        event = self._inbox.pop(key, None)
        if event is None:
            event = self._inbox[key] = self._fabric.env.event()
        return event
