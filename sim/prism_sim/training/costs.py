"""Computation times and message sizes of a stage, computed from the model's sizes.

Work is counted as in Megatron-LM: a matrix product with P parameters costs 2 P FLOPs a
token forward; attention scores and their use cost 4 s h more a token and layer; backward
costs twice forward; full recomputation adds one forward to it. With full recomputation of a
GPT layer this sums to 96 B s l h^2 (1 + s/6h + V/16lh).

Tensor parallelism adds two all-reduces of a micro-batch's activations forward and two
backward per layer, over NVLink. They take time but cause no network traffic. Memory traffic
between the products is in :mod:`prism_sim.training.kernels`.

References: Narayanan et al., Efficient large-scale language model training on GPU clusters
using Megatron-LM, SC'21, appendix; Korthikanti et al., Reducing activation recomputation,
2022, for selective recomputation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prism_sim.scenario.cluster import Cluster
from prism_sim.scenario.job import JobConfig
from prism_sim.training.config import TrainingConfig
from prism_sim.training.kernels import layer_memory_ns, score_memory_ns
from prism_sim.training.layers import (
    Unit,
    attention_flops,
    head_forward_flops,
    layer_forward_flops,
    units_of,
)

OPTIMIZER_BYTES_PER_PARAMETER = 30
"""Memory traffic of one Adam update: fp32 gradient, parameter and two moments are read (16),
parameter and moments written (12), and the bf16 copy written (2)."""


@dataclass(frozen=True)
class ChunkCost:
    """Cost of one micro-batch on one chunk of a stage's layers.

    Attributes
    ----------
    forward_ns, backward_ns : time on a healthy GPU, recomputation and tensor-parallel
        communication included.
    weights_ns : the part of the backward pass that only the gradients of parameters need.
    quadratic : the fraction of the whole forward pass that grows with the square of a sequence's
        length.
    units : units of the forward pass, in order.
    nvlink_ns : the part of both passes that is communication over NVLink.
    """

    forward_ns: float
    backward_ns: float
    weights_ns: float
    quadratic: float
    units: tuple[Unit, ...]
    nvlink_ns: float = 0.0

    @property
    def parameters(self) -> tuple[int, ...]:
        """Parameters of one rank without experts, in the order of the backward pass."""
        return tuple(size for unit in reversed(self.units) for size in unit.parameters)

    @property
    def expert_parameters(self) -> tuple[int, ...]:
        """Parameters of one rank's experts, in the order of the backward pass."""
        return tuple(size for unit in reversed(self.units) for size in unit.experts)


@dataclass(frozen=True)
class StageCost:
    """Cost of one micro-batch on one pipeline stage, and the stage's parameters.

    Attributes
    ----------
    chunks : cost of each chunk of its layers; one, unless the schedule interleaves.
    optimizer_ns : time of the parameter update.
    """

    chunks: tuple[ChunkCost, ...]
    optimizer_ns: float

    @property
    def forward_ns(self) -> float:
        """Time of one micro-batch's forward through all chunks on a healthy GPU [ns]."""
        return sum(chunk.forward_ns for chunk in self.chunks)

    @property
    def backward_ns(self) -> float:
        """Time of one micro-batch's backward through all chunks on a healthy GPU [ns]."""
        return sum(chunk.backward_ns for chunk in self.chunks)

    @property
    def nvlink_share(self) -> float:
        """Part of the duration of its passes that is communication over NVLink."""
        nvlink_ns = sum(chunk.nvlink_ns for chunk in self.chunks)
        return nvlink_ns / ((self.forward_ns + self.backward_ns) or 1.0)

    @property
    def parameters(self) -> tuple[int, ...]:
        """Parameters of one rank, last chunk first, in the order of the backward pass."""
        return tuple(size for chunk in reversed(self.chunks) for size in chunk.parameters)


def pipeline_message_bytes(job: JobConfig) -> int:
    """Bytes of a micro-batch's activation (or gradient) that a rank sends: 2 s b h / (tp cp)."""
    return job.activation_bytes * job.local_tokens * job.model.hidden // job.tp


def step_flops(job: JobConfig) -> float:
    """FLOPs of one training step of the whole job, recomputation included."""
    of_layer = {
        moe: 3 * layer_forward_flops(job, moe) + _recomputed_flops(job, moe)
        for moe in (False, True)
    }
    layers = sum(of_layer[job.is_moe(number)] for number in range(job.model.layers))
    return job.members * job.micro_batches * (layers + 3 * head_forward_flops(job))


def stage_costs(job: TrainingConfig, cluster: Cluster) -> list[StageCost]:
    """The cost of each pipeline stage, first to last."""
    return sharded_costs(job, cluster, job.optimizer_shards)


def sharded_costs(job: JobConfig, cluster: Cluster, optimizer_shards: int) -> list[StageCost]:
    """The same, for ``optimizer_shards`` ranks per copy of the optimizer's state."""
    return [_stage(job, cluster, stage, optimizer_shards) for stage in range(job.pp)]


def _recomputed_flops(job: JobConfig, moe: bool) -> float:
    whole = layer_forward_flops(job, moe)
    return {"none": 0.0, "selective": attention_flops(job), "full": whole}[job.recompute]


def _recomputed_memory_ns(job: JobConfig, moe: bool, cluster: Cluster) -> float:
    whole, scores = layer_memory_ns(job, moe, cluster), score_memory_ns(job, cluster)
    return {"none": 0.0, "selective": scores, "full": whole}[job.recompute]


def _stage(job: JobConfig, cluster: Cluster, stage: int, shards: int) -> StageCost:
    chunks = tuple(_chunk(job, cluster, stage, chunk) for chunk in range(job.stage_chunks))
    experts = sum(sum(chunk.expert_parameters) for chunk in chunks)
    dense = sum(sum(chunk.parameters) for chunk in chunks)
    shard = dense / shards + experts / max(1, shards // job.ep)
    return StageCost(
        chunks=chunks,
        optimizer_ns=shard * OPTIMIZER_BYTES_PER_PARAMETER / cluster.gpu.memory_gbytes_per_s,
    )


def _chunk(job: JobConfig, cluster: Cluster, stage: int, chunk: int) -> ChunkCost:
    part = job.part_of(stage, chunk)
    flops_per_ns = cluster.gpu.peak_tflops * 1e3 * job.mfu * job.tp
    has_head = part == job.parts - 1 and job.head_on_last_stage
    forward = _over_layers(job, part, lambda moe: layer_forward_flops(job, moe))
    forward += has_head * head_forward_flops(job)
    backward = 2 * forward + _over_layers(job, part, lambda moe: _recomputed_flops(job, moe))
    memory_ns = _over_layers(job, part, lambda moe: layer_memory_ns(job, moe, cluster))
    again_ns = _over_layers(job, part, lambda moe: _recomputed_memory_ns(job, moe, cluster))
    layers = job.layers_of(part)
    attention = layers * attention_flops(job)
    square_ns = attention / flops_per_ns + layers * score_memory_ns(job, cluster)
    exchange_ns = layers * _layer_exchange_ns(job, cluster)
    lookup_ns = _lookup_ns(job, cluster) if part == 0 and job.embedding_on_first_stage else 0.0
    factor = job.stage_factors[stage] if job.stage_factors else 1.0
    rounds = 2 if job.recompute == "full" else 1
    products_ns, backward_ns = forward / flops_per_ns, backward / flops_per_ns
    forward_ns = products_ns + memory_ns + exchange_ns + lookup_ns
    return ChunkCost(
        forward_ns=forward_ns * factor,
        backward_ns=(backward_ns + 2 * memory_ns + again_ns + exchange_ns * rounds + lookup_ns)
        * factor,
        weights_ns=(forward - attention) / flops_per_ns * factor,
        quadratic=square_ns / (forward_ns or 1.0),
        units=units_of(job, part),
        nvlink_ns=exchange_ns * (1 + rounds) * factor,
    )


def _over_layers(job: JobConfig, part: int, amount: Callable[[bool], float]) -> float:
    """Sum of ``amount`` (of a layer with experts, or without) over the layers of a part."""
    layers = job.layers_of(part)
    experts = sum(map(job.is_moe, job.layer_numbers(part)))
    return (layers - experts) * amount(False) + (experts * amount(True) if experts else 0.0)


def _lookup_ns(job: JobConfig, cluster: Cluster) -> float:
    """Embedding of a micro-batch: each activation is read from memory once and written once."""
    size = 2 * job.activation_bytes * job.local_tokens * job.model.hidden
    return size / job.tp / cluster.gpu.memory_gbytes_per_s


def _layer_exchange_ns(job: JobConfig, cluster: Cluster) -> float:
    """Two ring all-reduces of the activations among tp ranks over NVLink, per layer and pass.

    With sequence parallelism each is an all-gather and a reduce-scatter, with the same bytes and
    steps. If the group spans NVLink domains, its traffic is simulated and takes no time here.
    """
    if job.tp == 1 or job.tp > cluster.domain_gpus:
        return 0.0
    size = job.activation_bytes * job.local_tokens * job.model.hidden
    hop_ns = size / job.tp / (cluster.nvlink_gbps / 8) + cluster.nvlink_latency_ns
    return 2 * 2 * (job.tp - 1) * hop_ns
