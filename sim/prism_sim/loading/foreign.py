"""Names in other trainers and launchers, and the corresponding keys of a scenario.

A name is either another word for the same quantity, or a different quantity, from which ours
follows: then the hint says how. Only the former may be renamed.

Sources: arguments of Megatron-LM (``megatron/training/arguments.py``), the configuration of
DeepSpeed (``deepspeed.ai/docs/config-json``), of torchtitan (``torchtitan/config/job_config.py``)
and of PyTorch's DistributedDataParallel, options of torchrun (``torch.distributed.run``), and
model configurations of Hugging Face transformers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

_JOB, _MODEL, _MOE, _CLUSTER = "of a job", "of model", "of moe", "of cluster"

_NAMES: dict[tuple[str, str], str] = {
    ("tp", _JOB): "tensor_model_parallel_size tensor_parallel_size tp_size tensor_parallel "
    "tensor_parallel_degree",
    ("pp", _JOB): "pipeline_model_parallel_size pipeline_parallel_size pp_size pipeline_parallel "
    "num_stages pipeline_parallel_degree",
    ("dp", _JOB): "data_parallel_size dp_size",
    ("cp", _JOB): "context_parallel_size cp_size context_parallel context_parallel_degree",
    ("ep", _JOB): "expert_model_parallel_size expert_parallel_size ep_size expert_parallel_degree "
    "moe_expert_parallel_size",
    ("chunks", _JOB): "virtual_pipeline_model_parallel_size num_virtual_stages_per_pipeline_rank",
    ("micro_batch_size", _JOB): "train_micro_batch_size_per_gpu per_device_train_batch_size mbs",
    ("micro_batches", _JOB): "gradient_accumulation_steps num_microbatches num_micro_batches",
    ("global_batch_size", _JOB): "train_batch_size gbs",
    ("steps", _JOB): "train_iters max_steps num_steps training_steps",
    ("sequence_length", _JOB): "seq_length seq_len",
    ("zero_stage", _JOB): "zero_optimization_stage",
    ("bucket_params", _JOB): "ddp_bucket_size reduce_bucket_size",
    ("overlap_gradients", _JOB): "overlap_grad_reduce overlap_comm",
    ("recompute", _JOB): "recompute_granularity",
    ("layers", _MODEL): "num_layers num_hidden_layers n_layers n_layer",
    ("hidden", _MODEL): "hidden_size d_model n_embd hidden_dim",
    ("heads", _MODEL): "num_attention_heads n_heads n_head num_heads",
    ("kv_heads", _MODEL): "num_query_groups num_key_value_heads n_kv_heads",
    ("ffn_hidden", _MODEL): "ffn_hidden_size intermediate_size ffn_dim",
    ("vocab", _MODEL): "vocab_size padded_vocab_size",
    ("experts", _MOE): "num_experts n_routed_experts",
    ("top_k", _MOE): "moe_router_topk num_experts_per_tok",
    ("servers", _CLUSTER): "nnodes num_nodes nodes n_nodes",
    ("gpus_per_server", _CLUSTER): "nproc_per_node gpus_per_node num_gpus_per_node",
}

_FORMULAS: dict[str, tuple[str, str, str]] = {
    "num_layers_per_virtual_pipeline_stage": ("chunks", _JOB, "layers / pp / {}"),
    "bucket_cap_mb": ("bucket_params", _JOB, "{} * 1048576 / gradient_bytes"),
}
"""Our key, its owner, and how it follows from another quantity (the braces), by that one's name."""

_SENTENCES: dict[str, tuple[str, str, str]] = {
    "max_position_embeddings": ("sequence_length", _JOB, "it is the longest that a model takes; "
    "sequence_length is what it is trained on (seq_length)"),
    "max_seq_len": ("sequence_length", _JOB, "it is the longest that a model takes; "
    "sequence_length is what it is trained on (seq_length)"),
    "zero_optimization": ("zero_stage", _JOB, "its stage is called zero_stage here, a key of a "
    "job"),
    "zero": ("zero_stage", _JOB, "its stage is called zero_stage here, a key of a job"),
    "use_distributed_optimizer": ("zero_stage", _JOB, "true is zero_stage: 1, false is 0"),
    "fsdp": ("zero_stage", _JOB, "true or full_shard is zero_stage: 3, shard_grad_op is 2"),
    "sharding_strategy": ("zero_stage", _JOB, "FULL_SHARD is zero_stage: 3, SHARD_GRAD_OP is 2, "
    "NO_SHARD is 0; HYBRID_SHARD is 3 with hybrid_shards"),
    "data_parallel_sharding_strategy": ("zero_stage", _JOB, "optim_grads_params is zero_stage: 3, "
    "optim_grads is 2, optim is 1, no_shard is 0"),
    "data_parallel_shard_degree": ("dp", _JOB, "dp = data_parallel_replicate_degree * "
    "data_parallel_shard_degree, with zero_stage: 3; hybrid_shards is the latter, if both are "
    "above 1"),
    "data_parallel_replicate_degree": ("dp", _JOB, "dp = data_parallel_replicate_degree * "
    "data_parallel_shard_degree"),
    "allgather_bucket_size": ("bucket_params", _JOB, "it counts parameters of an all-gather; "
    "bucket_params counts those of a gradient bucket (reduce_bucket_size)"),
    "activation_checkpointing": ("recompute", _JOB, "if it is on: recompute: full"),
    "gradient_checkpointing": ("recompute", _JOB, "true is recompute: full, false is none"),
    "make_vocab_size_divisible_by": ("vocab", _MODEL, "vocab is vocab_size, rounded up to a "
    "multiple of it and tp"),
    "num_local_experts": ("experts", _MOE, "Hugging Face counts all: experts; Megatron counts "
    "those of a rank: experts = num_local_experts * ep"),
    "ntasks_per_node": ("gpus_per_server", _CLUSTER, "it counts processes; gpus_per_server is the "
    "same with one process a GPU, not with one torchrun a server"),
    "devices": ("gpus_per_server", _CLUSTER, "a number of devices a server is gpus_per_server; a "
    "list of them, its length"),
    "num_gpus": ("gpus_per_server", _CLUSTER, "GPUs of one server: gpus_per_server; of all: "
    "gpus_per_server = num_gpus / servers"),
}  # fmt: skip
"""Our key, its owner, and how it follows from what the other name means."""

NAMES: dict[str, tuple[str, str]] = {
    foreign: own for own, foreigners in _NAMES.items() for foreign in foreigners.split()
} | {name: (own, whose) for name, (own, whose, _) in (_FORMULAS | _SENTENCES).items()}
"""Our key and its owner, by the name in other programs."""

_PRODUCT = {"world_size"}

Numbers = Callable[[str], float | None]
"""Returns the number of a key of the same job or model, given or default; None if unknown."""


def own_name(key: str) -> tuple[str, str] | None:
    """Our key for ``key`` of another program, and its owner; None if unknown.

    >>> own_name("tensor-model-parallel-size")
    ('tp', 'of a job')
    """
    return NAMES.get(_plain(key))


def hint(key: str, value: Any = None, numbers: Numbers = lambda _key: None) -> str:
    """A hint for a key of another program; empty if the key is unknown.

    >>> hint("nnodes")
    'nnodes is called servers here, a key of cluster'
    >>> hint("bucket-cap-mb", 25, {"gradient_bytes": 4}.get)
    'bucket_params = 25 * 1048576 / gradient_bytes = 25 * 1048576 / 4 = 6553600, a key of a job'
    """
    plain = _plain(key)
    if plain in _PRODUCT:
        return f"{key} follows from dp x pp x tp x cp of the jobs; leave it out"
    if plain in _FORMULAS:
        own, whose, formula = _FORMULAS[plain]
        shown = value if isinstance(value, (int, float)) else key
        return f"{own} = {_computed(formula.format(shown), numbers)}, a key {whose}"
    if plain in _SENTENCES:
        return f"{key}: {_SENTENCES[plain][2]}"
    named = own_name(key)
    return f"{key} is called {named[0]} here, a key {named[1]}" if named else ""


_OPERATORS = {"*": operator.mul, "/": operator.truediv}


def _computed(formula: str, numbers: Numbers) -> str:
    """A formula, with its numbers and its result if they are known.

    >>> _computed("layers / pp / 5", {"layers": 40, "pp": 4}.get)
    'layers / pp / 5 = 40 / 4 / 5 = 2'
    """
    first, *rest = formula.split()
    signs, terms = rest[::2], [_number(word, numbers) for word in (first, *rest[1::2])]
    known = [term for term in terms if term]  # neither unknown nor 0
    if len(known) < len(terms):
        return formula
    result, written = known[0], f"{known[0]:.10g}"
    for sign, term in zip(signs, known[1:], strict=True):
        result = _OPERATORS[sign](result, term)
        written += f" {sign} {term:.10g}"
    return f"{formula} = {written} = {result:.10g}"


def _number(word: str, numbers: Numbers) -> float | None:
    try:
        return float(word)
    except ValueError:
        return numbers(word)


def _plain(key: str) -> str:
    return key.lower().lstrip("-").replace("-", "_")
