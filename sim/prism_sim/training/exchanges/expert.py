"""Expert parallelism: tokens are sent to their experts and back, twice per layer and pass.

Every rank sends each token to the ranks that hold its experts (dispatch) and gets the results
back (combine); backward, gradients take the reverse paths. No rank computes until all of
the group's tokens have arrived. Experts are not equally popular, and so neither are their ranks:
the bytes from one rank to another differ from layer to layer and micro-batch to micro-batch,
and as many bytes return. A rank that receives more tokens computes longer, and delays
all ranks that wait for its results. (If a schedule delays gradients of parameters, it
delays only those of other parameters than experts.)

References: Lepikhin et al., GShard, ICLR'21, section 3.1; Rajbhandari et al., DeepSpeed-MoE,
ICML'22, section 5.

In an uneven all-to-all each member divides its buffer by the shares of the exchange. Its own share
is not sent. The exchange ends with the last flow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar, Self

import numpy as np
import simpy
from numpy.typing import NDArray

from prism_common.kinds import EP
from prism_sim.cluster.network import Connection, Hop, Network
from prism_sim.scenario.base import Loc, Remark, Remarks
from prism_sim.scenario.job import JobConfig
from prism_sim.training.collectives.base import Group, shared
from prism_sim.training.collectives.node_limited import NodeLimitedAllToAll
from prism_sim.training.collectives.uncoupled import lone_messages
from prism_sim.training.communicators import GroupCommunicator
from prism_sim.training.context import JobContext
from prism_sim.training.exchanges.base import Around, Exchange, ExchangeBase, blocking
from prism_sim.training.groups import JobGroups
from prism_sim.training.layers import Phase
from prism_sim.training.program import Communicator, ExtraLoad
from prism_sim.training.stream import ExpertStream


@dataclass(frozen=True)
class Dispatched:
    """Tokens of a rank, with every expert they are sent to.

    ``size_bytes`` of them are sent, and ``back_bytes`` of results come back. ``load`` returns the
    received tokens relative to the mean.
    """

    communicator: Communicator
    size_bytes: int
    back_bytes: int
    load: Callable[[], float]

    def around(self, phase: Phase, forward: bool) -> Around:
        if phase.name != "experts":
            return Around()
        there = blocking(self.communicator, "dispatch", self.size_bytes, phase.layer)
        back = blocking(self.communicator, "combine", self.back_bytes, phase.layer)
        extra = ExtraLoad(self.load, Fraction(phase.routed))
        return Around(before=(*there, extra), after=back)


class ExpertParallelism(ExchangeBase):
    """Ranks that share the experts of a layer exchange tokens."""

    name: ClassVar[str] = "expert"
    spans: ClassVar[tuple[str, ...]] = ("dispatch", "combine")

    @classmethod
    def of(cls, job: JobConfig) -> Self | None:
        return cls() if job.mixture is not None and job.ep > 1 else None

    @classmethod
    def checks(cls, job: JobConfig, at: Loc) -> Remarks:
        if job.dp % job.ep:
            what = f"{job.ep} expert-parallel ranks cannot be taken from {job.dp} replicas"
            yield Remark((*at, "ep"), what, "ep must divide dp", ((*at, "dp"),))
        if job.length_spread and job.ep > 1:
            what = "experts shared by replicas with sequences of different lengths are not modelled"
            yield Remark((*at, "length_spread"), what, "leave it out", ((*at, "ep"),))
        moe = (*at, "moe")
        if job.mixture is None:
            if job.ep > 1:
                what = f"ep {job.ep} shares experts, and the model has none"
                reads = (moe, (*at, "model"))
                yield Remark((*at, "ep"), what, "add moe, or leave ep out", reads)
            return
        if job.mixture.experts % job.ep:
            what = f"{job.mixture.experts} experts cannot be shared evenly by {job.ep} ranks"
            yield Remark((*moe, "experts"), what, "ep must divide the experts", ((*at, "ep"),))
        if job.mixture.top_k > job.mixture.experts:
            what = f"a token cannot be sent to {job.mixture.top_k} of {job.mixture.experts} experts"
            yield Remark((*moe, "top_k"), what, "lower top_k", ((*moe, "experts"),))

    def open(self, groups: JobGroups, stage: int) -> Mapping[int, Exchange]:
        job = groups.context.config
        assert job.mixture is not None  # otherwise the job does not have this exchange
        elements = job.local_tokens * job.mixture.top_k * job.model.hidden
        there = (job.mixture.dispatch_bytes or job.activation_bytes) * elements // job.tp
        back = job.activation_bytes * elements // job.tp
        made: dict[int, Exchange] = {}
        for first in range(0, job.members, job.ep * job.cp):
            for context in range(job.cp):
                members = [first + context + rank * job.cp for rank in range(job.ep)]
                stream = _stream(groups, stage, members, (job.name, first, context))
                for place, member in enumerate(members):
                    load = partial(stream.load, place)
                    communicator = GroupCommunicator(stream, place)
                    made[member] = Dispatched(communicator, there, back, load)
        return made


def _stream(
    groups: JobGroups, stage: int, members: list[int], key: tuple[str | int, ...]
) -> ExpertStream:
    """The all-to-alls of ``members`` of ``stage``; draws are keyed by ``key``."""
    context, job = groups.context, groups.context.config
    parts = [
        _all_to_all(
            Group(context.gpus[stage, members, t].tolist(), Connection(job.name, EP, t)), context
        )
        for t in range(job.tp)
    ]
    numbers = [groups.numbers[stage][member] for member in members]
    imbalance = partial(context.compute.sigma, "expert_imbalance")
    stream = ExpertStream(context.env, parts, numbers, context.log, context.draws, key, imbalance)
    context.streams.append(stream)
    return stream


def _all_to_all(group: Group, context: JobContext) -> UnevenAllToAll | NodeLimitedAllToAll:
    """The all-to-all of ``group``; node-limited if it fills parts of several domains evenly."""
    mixture = context.config.mixture
    assert mixture is not None  # otherwise there are no experts
    domains = Counter(map(context.layout.domain_of_gpu, group.gpus))
    even = len(set(domains.values())) == 1 and len(domains) > 1
    if mixture.servers is None or not even:
        return UnevenAllToAll(group, context.network)
    crossings = min(1.0, min(mixture.servers, len(domains)) / mixture.top_k)
    return NodeLimitedAllToAll(group, context.network, crossings)


class UnevenAllToAll:
    """All pairs of one group, each with its own connection and size."""

    def __init__(self, group: Group, network: Network) -> None:
        self._network = network
        connections = network.queue_pairs(group.connection)
        self._connections = len(connections)
        self._bundles: list[tuple[int, int, int, int]] = []
        self._hops: list[tuple[int, int, Hop]] = []
        for i, a in enumerate(group.gpus):
            for j, b in enumerate(group.gpus):
                if i != j:
                    hops = [network.hop(a, b, connection) for connection in connections]
                    self._bundles.append((i, j, *network.bundle(hops)))
                    self._hops += [(i, j, hop) for hop in hops]

    def exchange(self, size_bytes: int, share: NDArray[np.float64], event: simpy.Event) -> None:
        """Send ``share[i, j]`` of member i's ``size_bytes`` to member j; ``event`` at the end."""
        env, fabric = self._network.env, self._network.fabric
        ends = []
        for i, j, bundle, latency_ns in self._bundles:
            ends.append(env.event())
            size = max(1, round(size_bytes * float(share[i, j])))
            fabric.transfer(bundle, shared(size, self._connections), latency_ns, ends[-1])
        over = env.all_of(ends)
        assert over.callbacks is not None
        over.callbacks.append(lambda _: env.fire(event))

    def abandon(self, size_bytes: int, share: NDArray[np.float64], ready_ns: Sequence[int]) -> None:
        """Write what was sent between members; see :class:`~.base.PartialCollective`."""
        every = [max(1, round(size_bytes * float(share[i, j]))) for i, j, _ in self._hops]
        sizes = np.array([shared(size, self._connections) for size in every])
        starts_ns = np.array([max(ready_ns[i], ready_ns[j]) for i, j, _ in self._hops])
        hops = [hop for _, _, hop in self._hops]
        self._network.observer.observe(lone_messages(hops, sizes, starts_ns, self._network))
