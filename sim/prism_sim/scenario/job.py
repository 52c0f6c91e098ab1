"""One training job: its model, its division over GPUs, its placement, and its length."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from prism_sim.scenario.architecture import Experts
from prism_sim.scenario.base import Closed
from prism_sim.scenario.habits import Restart
from prism_sim.scenario.library import Library, Transport
from prism_sim.scenario.model_sizes import ModelSizes
from prism_sim.scenario.presets import PRESETS, preset
from prism_sim.scenario.timings import Timings


class OnServers(Closed):
    """A placement by names: the job's servers, filled in this order."""

    servers: tuple[str, ...] = Field(min_length=1)
    """Names of the servers, in the order they are filled."""


def _placement_form(value: Any) -> str:
    return "strategy" if isinstance(value, str) else "explicit"


Strategy = Literal["packed", "spread", "random", "fragmented"]
Placement = Annotated[
    Annotated[Strategy, Tag("strategy")] | Annotated[OnServers, Tag("explicit")],
    Discriminator(_placement_form),
]


def _sizes(value: Any) -> Any:
    return preset(value) if isinstance(value, str) else value


Model = Annotated[
    ModelSizes,
    BeforeValidator(
        _sizes,
        json_schema_input_type=Annotated[str, Field(json_schema_extra={"enum": [*PRESETS]})]
        | ModelSizes,
    ),
]


def with_micro_batches(job: Any) -> Any:
    """The values of a job with micro_batches, computed from global_batch_size if necessary.

    Divisibility is checked later, when all values are known to be valid.

    >>> with_micro_batches({"global_batch_size": 32, "dp": 4})["micro_batches"]
    8
    """
    if not isinstance(job, dict) or "global_batch_size" not in job or "micro_batches" in job:
        return job
    batch, *divisors = (job.get(k, 1) for k in ("global_batch_size", "dp", "micro_batch_size"))
    known = all(isinstance(number, int) and number > 0 for number in (batch, *divisors))
    return job | {"micro_batches": max(1, batch // math.prod(divisors)) if known else 1}


class JobConfig(Closed):
    """One training job with data, pipeline, tensor, expert and context parallelism.

    The kinds that a job can choose from (schedules, strategies, activities besides its steps)
    and traces are added above this package.
    """

    name: str = Field(min_length=1, max_length=64)
    """Name of the job; unique in the scenario."""
    model: Model = Field(description="Name of a model preset, or sizes written out.")
    dp: int = Field(default=1, ge=1, le=1_048_576, description="Data-parallel replicas.")
    pp: int = Field(default=1, ge=1, le=1_048_576)
    """Pipeline stages. pp x chunks must divide the number of layers, unless stage_layers gives the
    layers of each stage."""
    chunks: int = Field(default=1, ge=1, le=10_000)
    """Chunks of layers in each stage (virtual stages), for schedule interleaved."""
    stage_layers: tuple[Annotated[int, Field(ge=0, le=10_000)], ...] | None = None
    """Layers of each of the pp x chunks parts of the model, first to last; part i belongs to stage
    i modulo pp. The first and the last part may have none: they hold the embedding and the head.
    Left out: the same number in every part."""
    stage_factors: tuple[Annotated[float, Field(ge=1e-6, le=1e6)], ...] | None = None
    """Factor on the compute time of each stage, for stages that take longer than their number of
    layers explains. Left out: 1."""
    tp: int = Field(default=1, ge=1, le=1_048_576)
    """Tensor-parallel ranks; tp must divide the GPUs of a server, or be a multiple of them. If a
    group spans servers, its traffic is visible in the network."""
    cp: int = Field(default=1, ge=1, le=1_048_576)
    """Context-parallel ranks: they share each sequence, and pass keys and values around a ring in
    every layer. The job has dp x cp x pp x tp ranks."""
    ep: int = Field(default=1, ge=1, le=1_048_576)
    """Expert-parallel ranks: they share the experts of a layer. They are taken from the replicas,
    so ep must divide dp."""
    moe: Experts | None = None
    """A mixture of experts. Left out: the model's own, if it has one."""
    sequence_parallel: bool = False
    """Tensor parallelism with sequence parallelism: all-gathers and reduce-scatters in place of
    all-reduces (Korthikanti et al., 2022)."""
    micro_batches: int = Field(ge=1, le=1_000_000)
    """Micro-batches of one replica in one step. May be left out if global_batch_size is given."""
    global_batch_size: int | None = Field(default=None, ge=1, le=1_000_000_000)
    """Sequences of one step over all replicas: dp x micro_batch_size x micro_batches. Left out: the
    product of these three."""
    micro_batch_size: int = Field(default=1, ge=1, le=1_000_000)
    """Sequences in a micro-batch."""
    sequence_length: int | None = Field(default=None, ge=1, le=1_000_000_000)
    """Tokens in a sequence. Left out: the model's."""
    recompute: Literal["none", "selective", "full"] = "none"
    """Activations that are recomputed in the backward pass: none, those of attention (selective),
    or all of a layer (full)."""
    kernels: Literal["ideal", "unfused", "fused"] = "ideal"
    """Operations that take time besides matrix products. ideal: none; mfu includes them. unfused:
    norms, residuals, dropout, activation functions and attention scores pass through memory, as in
    Megatron-LM in 2022. fused: scores stay on the chip, and entries that the causal mask hides are
    not computed (FlashAttention). With unfused and fused, mfu is that of the matrix products
    alone."""
    mfu: float = Field(default=0.5, ge=1e-6, le=1)
    """Fraction of the GPU's peak that is reached during computation. Pipeline bubbles and exposed
    communication take further time, so the MFU of the whole job is lower. Default: whole-job
    figures of 0.35 to 0.55 are published (MegaScale, NSDI'24: 0.552)."""
    hybrid_shards: int | None = Field(default=None, ge=2, le=1_048_576)
    """Hybrid sharding: number of neighbouring replicas (such as those of one server) that share one
    copy of the sharded state. Each such group has a copy, and gradients are all-reduced between
    groups. Must divide dp. Left out: all replicas share one copy."""
    overlap_param_gather: bool = False
    """ZeRO 1 and 2: gather updated parameters during the next step's first forward instead of right
    after the optimizer."""
    bucket_params: int | None = Field(default=None, ge=1, le=10**15)
    """Parameters in a gradient bucket; a full bucket is sent. Left out: max(40e6, 1e6 x dp) as in
    Megatron-Core, and a single bucket without overlap."""
    overlap_gradients: bool = True
    """Send a gradient bucket as soon as the last micro-batch's backward pass has filled it. False:
    all buckets are sent after the backward pass."""
    sync_embeddings: bool = False
    """All-reduce the gradients of the embedding that first and last stage share (tied embeddings)
    at the end of every step."""
    gradient_norm: bool = False
    """All-reduce the gradient's norm over the ranks of a replica before every update, as gradient
    clipping does. A few bytes."""
    loss_reduce: bool = False
    """All-reduce the loss over the last stage's replicas in every step. A few bytes."""
    activation_bytes: int = Field(default=2, ge=1, le=8)
    """Bytes of an activation on the wire. Default: bf16."""
    gradient_bytes: int = Field(default=4, ge=1, le=8)
    """Bytes of a gradient on the wire. Default: fp32."""
    parameter_bytes: int = Field(default=2, ge=1, le=8)
    """Bytes of a gathered parameter on the wire [bf16: 2]."""
    head_on_last_stage: bool = True
    """The last stage also computes the head and the loss, so it takes longer than the others.
    False: this computation is left out, and all stages take the same time."""
    embedding_on_first_stage: bool = False
    """The first stage also takes the time to look up embeddings and to add to their gradients."""
    library: Library | None = None
    """A communication library over sockets, such as gloo: a message starts when sender and receiver
    are ready (rendezvous), and rings send segments. Left out: receives are posted ahead and
    messages start at once, as with RDMA."""
    transport: Transport | None = None
    """Transport protocol of the job's traffic. roce: RoCE v2, UDP port 4791. tcp: TCP connections.
    Left out: tcp for a job with a library (sockets), else roce."""
    length_spread: float = Field(default=0.0, ge=0, le=1)
    """Sigma of the lognormal factor (median 1, at most 4) on the tokens of every micro-batch:
    compute times and message sizes vary with it, in the same way in all stages of a replica."""
    warm_up_steps: int = Field(default=0, ge=0, le=1_000_000_000)
    """Number of first steps that are slower; the slowdown decreases from step to step."""
    warm_up_factor: float = Field(default=1.5, ge=1, le=1e6)
    """Factor on the compute of the first step, with warm_up_steps."""
    restarts: tuple[Restart, ...] = ()
    """Failures of a rank in order of time; after each, the whole job restarts."""
    placement: Placement = "packed"
    """packed: fill server after server. spread: one tensor-parallel group a server, round robin.
    random: groups on random free slots. fragmented: runs of a few neighbouring slots, at random
    places. Or {servers: [s0000, ...]}."""
    steps: int = Field(ge=1, le=1_000_000_000)
    """Training steps; the job ends after them."""
    start_s: float = Field(default=0.0, ge=0, le=1e8, description="Start of the first step [s].")
    after: str | None = None
    """Name of a job above whose GPUs this one may use as well, since it starts later. The
    simulation is refused if that job still runs at start_s."""
    compute_jitter: float = Field(default=0.0, ge=0, le=1)
    """Sigma of the lognormal factor (median 1) on every forward and backward."""
    server_jitter: float = Field(default=0.0, ge=0, le=1)
    """Sigma of a further lognormal factor (median 1) on the passes of a micro-batch, which all
    ranks of the job in one server share."""
    common_jitter: float = Field(default=0.0, ge=0, le=1)
    """Sigma of a further lognormal factor (median 1) on all passes of a step, which all ranks of
    the job share: they run on one machine, or wait for one service."""
    tail_probability: float = Field(default=0.0, ge=0, le=0.5)
    """Probability that a pass takes longer than its jitter: by a factor with a heavy tail (Pareto,
    at least 1, at most 100)."""
    tail_index: float = Field(default=2.5, gt=1, le=100)
    """Index of that tail; a lower one is heavier."""
    step_overhead_ms: float = Field(default=0.0, ge=0, le=1e9)
    """Host work between the optimizer and the next step's first forward [ms]; it causes no
    traffic."""
    step_overhead_jitter: float = Field(default=0.0, ge=0, le=1)
    """Sigma of the lognormal factor (median 1) on every step_overhead_ms."""

    @model_validator(mode="before")
    @classmethod
    def _micro_batches_of_the_batch(cls, values: Any) -> Any:
        return with_micro_batches(values)

    @property
    def timings(self) -> Timings | None:
        """Measured durations of passes and updates, if there are any."""
        return None

    @property
    def wire_transport(self) -> Transport:
        """Transport protocol of the job's traffic."""
        return self.transport or ("tcp" if self.library else "roce")

    @property
    def size(self) -> str:
        """The size of the job as text."""
        context = f" x cp {self.cp}" if self.cp > 1 else ""
        return f"dp {self.dp} x pp {self.pp} x tp {self.tp}{context} = {self.ranks} GPUs"

    @property
    def stages(self) -> int:
        """Pipeline stages."""
        return self.pp

    @property
    def varies_lengths(self) -> bool:
        """Whether the lengths of its sequences may differ from micro-batch to micro-batch."""
        return not self.shares_experts

    @property
    def can_fail(self) -> bool:
        """Whether the job can stop, and restart, at any time."""
        return self.timings is None

    @property
    def shares_experts(self) -> bool:
        """Whether ranks share the experts of its layers."""
        return self.mixture is not None and self.ep > 1

    @property
    def ranks(self) -> int:
        """GPUs the job runs on."""
        return self.members * self.pp * self.tp

    @property
    def members(self) -> int:
        """Tensor-parallel groups of one stage: replicas times context-parallel ranks."""
        return self.dp * self.cp

    @property
    def local_tokens(self) -> int:
        """Tokens of one micro-batch that one context-parallel rank works on."""
        return self.tokens * self.micro_batch_size // self.cp

    @property
    def parts(self) -> int:
        """Parts that the model's layers are cut into: chunks of all stages."""
        return self.pp * self.chunks

    @property
    def stage_chunks(self) -> int:
        """Chunks of layers that a stage holds."""
        return self.chunks

    @property
    def copies(self) -> int:
        """Stages that hold each part."""
        return 1

    def part_of(self, stage: int, chunk: int) -> int:
        """The part that is ``chunk`` of ``stage``."""
        return chunk * self.pp + stage

    def layers_of(self, part: int) -> int:
        """Layers in one of the parts; part i belongs to stage i modulo pp."""
        return self.stage_layers[part] if self.stage_layers else self.model.layers // self.parts

    def layer_numbers(self, part: int) -> range:
        """Numbers in the model of the layers in one of the parts."""
        first = sum(self.layers_of(before) for before in range(part))
        return range(first, first + self.layers_of(part))

    def is_moe(self, layer: int) -> bool:
        """Whether a layer, by its number in the model, has experts."""
        return self.mixture is not None and layer >= self.mixture.dense_layers

    @property
    def mixture(self) -> Experts | None:
        """The mixture of experts: the job's own choice, or the model's."""
        return self.moe or self.model.moe

    @property
    def tokens(self) -> int:
        """Tokens in one sequence: the job's own choice, or the model's."""
        return self.sequence_length or self.model.sequence_length

    @property
    def bucket_limit_params(self) -> int | None:
        """Parameters a gradient bucket holds; None for one bucket of everything.

        Default as in Megatron-Core's distributed data parallel configuration.
        """
        if self.bucket_params is not None:
            return self.bucket_params
        return max(40_000_000, 1_000_000 * self.dp) if self.overlap_gradients else None
