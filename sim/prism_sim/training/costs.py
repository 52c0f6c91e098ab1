"""How long a stage computes and how many bytes it hands on: everything from the model's sizes.

Work is counted as in Megatron-LM: a matrix product with P parameters costs 2 P FLOPs a
token forward; attention scores and their use cost 4 s h more a token and layer; backward
costs twice forward; full recomputation adds one forward to it. With full recomputation of a
GPT layer this sums to 96 B s l h^2 (1 + s/6h + V/16lh).

Tensor parallelism adds two all-reduces of a micro-batch's activations forward and two
backward, a layer, over NVLink. They take time and leave no trace on the network.

References: Narayanan et al., Efficient large-scale language model training on GPU clusters
using Megatron-LM, SC'21, appendix; Korthikanti et al., Reducing activation recomputation,
2022, for selective recomputation.
"""

from __future__ import annotations

from dataclasses import dataclass

from prism_sim.scenario.models import Cluster, Job

ACTIVATION_BYTES = 2
"""Bytes of one bf16 activation on the wire."""

OPTIMIZER_BYTES_PER_PARAMETER = 30
"""Memory traffic of one Adam update: fp32 gradient, parameter and two moments are read (16),
parameter and moments written (12), and the bf16 copy written (2)."""


@dataclass(frozen=True)
class Unit:
    """A transformer block, the embedding, or the head: what is sharded and gathered as one.

    Attributes
    ----------
    weight : its part of a pass, as FLOPs of the forward pass.
    parameters : of one rank, in the order in which the backward pass finishes their gradients:
        one entry a weight matrix or the like.
    """

    weight: int
    parameters: tuple[int, ...]


@dataclass(frozen=True)
class ChunkCost:
    """What one chunk of a stage's layers does with one micro-batch.

    Attributes
    ----------
    forward_ns, backward_ns : time on a healthy GPU, recomputation and tensor-parallel
        communication included.
    weights_ns : the part of the backward pass that only parameters' gradients need.
    units : what the forward pass goes through, in order.
    """

    forward_ns: float
    backward_ns: float
    weights_ns: float
    units: tuple[Unit, ...]

    @property
    def parameters(self) -> tuple[int, ...]:
        """Parameters of one rank in the order of the backward pass."""
        return tuple(size for unit in reversed(self.units) for size in unit.parameters)


@dataclass(frozen=True)
class StageCost:
    """What one pipeline stage does with one micro-batch, and what it owns.

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
    def parameters(self) -> tuple[int, ...]:
        """Parameters of one rank, last chunk first, in the order of the backward pass."""
        return tuple(size for chunk in reversed(self.chunks) for size in chunk.parameters)


def pipeline_message_bytes(job: Job) -> int:
    """Bytes of one micro-batch's activation (or gradient) that one rank sends: 2 s b h / tp."""
    tokens = job.tokens * job.micro_batch_size
    return ACTIVATION_BYTES * tokens * job.model.hidden // job.tp


def layer_forward_flops(job: Job) -> float:
    """FLOPs of one layer's forward pass of one micro-batch, over all its tp ranks."""
    tokens = job.tokens * job.micro_batch_size
    return tokens * 2.0 * job.model.matrix_parameters_per_layer + _attention_flops(job)


def head_forward_flops(job: Job) -> float:
    """FLOPs of the logits of one micro-batch, over all tp ranks."""
    return 2.0 * job.tokens * job.micro_batch_size * job.model.hidden * job.model.vocab


def step_flops(job: Job) -> float:
    """FLOPs of one training step of the whole job, recomputation included."""
    layers = job.model.layers * (3 * layer_forward_flops(job) + _recomputed_flops(job))
    return job.dp * job.micro_batches * (layers + 3 * head_forward_flops(job))


def stage_costs(job: Job, cluster: Cluster) -> list[StageCost]:
    """The cost of each pipeline stage, first to last."""
    return [_stage(job, cluster, stage) for stage in range(job.pp)]


def _attention_flops(job: Job) -> float:
    """Scores and their use: 4 s h a token (no discount for the causal mask)."""
    return 4.0 * job.tokens**2 * job.micro_batch_size * job.model.hidden


def _recomputed_flops(job: Job) -> float:
    again = {"none": 0.0, "selective": _attention_flops(job), "full": layer_forward_flops(job)}
    return again[job.recompute]


def _stage(job: Job, cluster: Cluster, stage: int) -> StageCost:
    chunks = tuple(_chunk(job, cluster, stage, chunk) for chunk in range(job.chunks))
    shard = sum(sum(chunk.parameters) for chunk in chunks) / job.optimizer_shards
    return StageCost(
        chunks=chunks,
        optimizer_ns=shard * OPTIMIZER_BYTES_PER_PARAMETER / cluster.gpu.memory_gbytes_per_s,
    )


def _chunk(job: Job, cluster: Cluster, stage: int, chunk: int) -> ChunkCost:
    part = chunk * job.pp + stage
    layers = job.layers_of(part)
    flops_per_ns = cluster.gpu.peak_tflops * 1e3 * job.mfu * job.tp
    has_head = part == job.parts - 1 and job.head_on_last_stage
    forward = layers * layer_forward_flops(job) + has_head * head_forward_flops(job)
    backward = 2 * forward + layers * _recomputed_flops(job)
    exchange_ns = layers * _layer_exchange_ns(job, cluster)
    lookup_ns = _lookup_ns(job, cluster) if part == 0 and job.embedding_on_first_stage else 0.0
    factor = job.stage_factors[stage] if job.stage_factors else 1.0
    again = 2 if job.recompute == "full" else 1
    return ChunkCost(
        forward_ns=(forward / flops_per_ns + exchange_ns + lookup_ns) * factor,
        backward_ns=(backward / flops_per_ns + exchange_ns * again + lookup_ns) * factor,
        weights_ns=(forward - layers * _attention_flops(job)) / flops_per_ns * factor,
        units=_units(job, part),
    )


def _lookup_ns(job: Job, cluster: Cluster) -> float:
    """Embedding of a micro-batch: each activation is read from memory once and written once."""
    size = 2 * ACTIVATION_BYTES * job.tokens * job.micro_batch_size * job.model.hidden
    return size / job.tp / cluster.gpu.memory_gbytes_per_s


def _layer_exchange_ns(job: Job, cluster: Cluster) -> float:
    """Two ring all-reduces of the activations among tp ranks over NVLink, a layer and pass."""
    if job.tp == 1:
        return 0.0
    size = ACTIVATION_BYTES * job.tokens * job.micro_batch_size * job.model.hidden
    hop_ns = size / job.tp / (cluster.nvlink_gbps / 8) + cluster.nvlink_latency_ns
    return 2 * 2 * (job.tp - 1) * hop_ns


def _units(job: Job, part: int) -> tuple[Unit, ...]:
    """The units of one of the parts that the model is cut into, in forward order."""
    block = Unit(round(layer_forward_flops(job)), _layer_parameters(job))
    units = [block] * job.layers_of(part)
    if part == 0:
        units = [Unit(0, (job.model.embedding_parameters // job.tp,)), *units]
    if part == job.parts - 1:
        size = max(1, job.model.head_parameters // job.tp)
        units.append(Unit(round(job.head_on_last_stage * head_forward_flops(job)), (size,)))
    return tuple(units)


def _layer_parameters(job: Job) -> tuple[int, ...]:
    """One rank's parameters of a layer, matrix by matrix, in the order of the backward pass."""
    model, tp = job.model, job.tp
    attention = 2 * model.hidden * (model.hidden + model.kv_hidden)
    feed_forward = model.matrix_parameters_per_layer - attention
    small = model.parameters_per_layer - model.matrix_parameters_per_layer
    projection = model.hidden * model.hidden
    up_matrices = 2 if model.gated_ffn else 1
    down = feed_forward // (up_matrices + 1)
    layer = (down // tp, (feed_forward - down) // tp, projection // tp)
    return (*layer, (attention - projection) // tp + small)


def buckets(job: Job, parameters: tuple[int, ...]) -> list[int]:
    """Parameters in each gradient bucket, in the order in which they fill up.

    A bucket is closed by the matrix that brings it to the limit, so sizes follow layer
    boundaries and differ; the last one holds what is left.
    """
    limit = job.bucket_limit_params
    if limit is None:
        return [sum(parameters)]
    filled: list[int] = []
    held = 0
    for size in parameters:
        held += size
        if held >= limit:
            filled.append(held)
            held = 0
    return [*filled, held] if held else filled
