"""The parts of a model on one rank: blocks, their FLOPs and their parameters.

A layer is attention and a feed-forward part. In a mixture of experts the feed-forward part
is many experts, of which a router sends each token to a few; a rank holds 1/ep of them. Context
parallelism cuts sequences, so a rank works on 1/cp of the tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

from prism_sim.scenario.job import JobConfig
from prism_sim.training.kernels import KERNELS


@dataclass(frozen=True)
class Phase:
    """A part of a unit's work.

    Attributes
    ----------
    name : ``attention``, ``feed_forward``, ``experts``, or ``ends`` (embedding and head).
    weight : its part of a pass, as FLOPs of the forward pass.
    layer : number of its layer in the model, -1 for the ends.
    routed : the part of its weight that is due to routed experts.
    """

    name: str
    weight: int
    layer: int = -1
    routed: int = 0


@dataclass(frozen=True)
class Unit:
    """A transformer block, the embedding, or the head: a unit of sharding and gathering.

    Attributes
    ----------
    phases : phases of a forward pass, in order.
    parameters : of one rank, in the order in which the backward pass finishes their gradients:
        one entry a weight matrix or the like.
    experts : the same for the experts of a rank.
    """

    phases: tuple[Phase, ...]
    parameters: tuple[int, ...]
    experts: tuple[int, ...] = ()

    @property
    def weight(self) -> int:
        """Its part of a pass, as FLOPs of the forward pass."""
        return sum(phase.weight for phase in self.phases)


def layer_forward_flops(job: JobConfig, moe: bool = False) -> float:
    """FLOPs of one layer's forward pass of one micro-batch, over all its tp ranks."""
    model = job.model
    matrices = model.matrix_parameters_per_layer
    if moe and job.mixture is not None:
        met = model.routed_parameters(job.mixture, job.mixture.top_k)
        matrices = model.attention_parameters + met
    return job.local_tokens * 2.0 * matrices + attention_flops(job)


def attention_flops(job: JobConfig) -> float:
    """Scores and their use: 4 s h per token, half of it if the masked part is left out."""
    scores = 4.0 * job.tokens * job.local_tokens * job.model.score_width
    return scores * KERNELS[job.kernels].masked


def head_forward_flops(job: JobConfig) -> float:
    """FLOPs of the logits of one micro-batch, over all tp ranks."""
    return 2.0 * job.local_tokens * job.model.hidden * job.model.outputs


def units_of(job: JobConfig, part: int) -> tuple[Unit, ...]:
    """The units of one of the model's parts, in forward order."""
    units = [_block(job, layer) for layer in job.layer_numbers(part)]
    if part == 0:
        embedding = (job.model.embedding_parameters // job.tp,)
        units = [Unit((Phase("ends", 0),), embedding), *units]
    if part == job.parts - 1:
        head = (max(1, job.model.head_parameters // job.tp),)
        weight = round(job.head_on_last_stage * head_forward_flops(job))
        units.append(Unit((Phase("ends", weight),), head))
    return tuple(units)


def _block(job: JobConfig, layer: int) -> Unit:
    moe = job.is_moe(layer)
    model, tp = job.model, job.tp
    attention = 2.0 * job.local_tokens * model.attention_parameters + attention_flops(job)
    rest = layer_forward_flops(job, moe) - attention
    phases = (
        Phase("attention", round(attention), layer),
        Phase("experts" if moe else "feed_forward", round(rest), layer, _routed(job, moe)),
    )
    projection = model.output_parameters
    small = model.parameters_per_layer - model.matrix_parameters_per_layer
    around = (projection // tp, (model.attention_parameters - projection) // tp + small)
    if not moe:
        dense = model.feed_forward_parameters(model.ffn_width)
        return Unit(phases, (*_feed_forward(job, dense), *around))
    assert job.mixture is not None
    expert = model.expert_parameters(job.mixture)
    router = model.hidden * job.mixture.experts
    shared = (job.mixture.shared * expert // tp,) if job.mixture.shared else ()
    own = _feed_forward(job, expert) * (job.mixture.experts // job.ep)
    return Unit(phases, (*shared, router, *around), own)


def _routed(job: JobConfig, moe: bool) -> int:
    """FLOPs of the experts that a micro-batch's tokens are sent to, over all tp ranks."""
    if not moe or job.mixture is None:
        return 0
    met = job.mixture.top_k * job.model.expert_parameters(job.mixture)
    return 2 * job.local_tokens * met


def _feed_forward(job: JobConfig, parameters: int) -> tuple[int, int]:
    """One rank's part of a feed-forward's matrices: down, then up (and gate)."""
    down = parameters // (3 if job.model.gated_ffn else 2)
    return down // job.tp, (parameters - down) // job.tp
