"""Names in other trainers and launchers, and the corresponding keys of a scenario.

Sources: arguments of Megatron-LM (``megatron/training/arguments.py``), the configuration of
DeepSpeed (``deepspeed.ai/docs/config-json``), options of torchrun
(``torch.distributed.run``), and model configurations of Hugging Face transformers.
"""

from __future__ import annotations

_JOB, _MODEL, _MOE, _CLUSTER = "of a job", "of model", "of moe", "of cluster"

_NAMES: dict[tuple[str, str], str] = {
    ("tp", _JOB): "tensor_model_parallel_size tensor_parallel_size tp_size tensor_parallel",
    ("pp", _JOB): "pipeline_model_parallel_size pipeline_parallel_size pp_size pipeline_parallel "
    "num_stages",
    ("dp", _JOB): "data_parallel_size dp_size",
    ("cp", _JOB): "context_parallel_size cp_size context_parallel",
    ("ep", _JOB): "expert_model_parallel_size expert_parallel_size ep_size moe_expert_parallel",
    ("chunks", _JOB): "num_layers_per_virtual_pipeline_stage virtual_pipeline_model_parallel_size "
    "num_virtual_stages_per_pipeline_rank",
    ("micro_batch_size", _JOB): "train_micro_batch_size_per_gpu per_device_train_batch_size mbs",
    ("micro_batches", _JOB): "gradient_accumulation_steps num_microbatches num_micro_batches",
    ("global_batch_size", _JOB): "train_batch_size gbs",
    ("steps", _JOB): "train_iters max_steps num_steps training_steps",
    ("sequence_length", _JOB): "seq_length seq_len max_seq_len max_position_embeddings",
    ("zero_stage", _JOB): "zero_optimization zero sharding_strategy fsdp use_distributed_optimizer "
    "zero_optimization_stage data_parallel_sharding_strategy",
    ("bucket_params", _JOB): "ddp_bucket_size reduce_bucket_size bucket_cap_mb "
    "allgather_bucket_size",
    ("overlap_gradients", _JOB): "overlap_grad_reduce overlap_comm",
    ("recompute", _JOB): "recompute_granularity activation_checkpointing gradient_checkpointing",
    ("layers", _MODEL): "num_layers num_hidden_layers n_layers n_layer",
    ("hidden", _MODEL): "hidden_size d_model n_embd hidden_dim",
    ("heads", _MODEL): "num_attention_heads n_heads n_head num_heads",
    ("kv_heads", _MODEL): "num_query_groups num_key_value_heads n_kv_heads",
    ("ffn_hidden", _MODEL): "ffn_hidden_size intermediate_size ffn_dim",
    ("vocab", _MODEL): "vocab_size padded_vocab_size make_vocab_size_divisible_by",
    ("experts", _MOE): "num_experts num_local_experts n_routed_experts",
    ("top_k", _MOE): "moe_router_topk num_experts_per_tok",
    ("servers", _CLUSTER): "nnodes num_nodes nodes n_nodes",
    ("gpus_per_server", _CLUSTER): "nproc_per_node gpus_per_node num_gpus_per_node devices "
    "ntasks_per_node num_gpus",
}

NAMES: dict[str, tuple[str, str]] = {
    foreign: own for own, foreigners in _NAMES.items() for foreign in foreigners.split()
}
"""Our key and its owner, by the name in other programs."""

_PRODUCT = {"world_size"}


def own_name(key: str) -> tuple[str, str] | None:
    """Our key for ``key`` of another program, and its owner; None if unknown.

    >>> own_name("tensor-model-parallel-size")
    ('tp', 'of a job')
    """
    return NAMES.get(_plain(key))


def hint(key: str) -> str:
    """A hint for a key of another program; empty if the key is unknown.

    >>> hint("nnodes")
    'nnodes is called servers here, a key of cluster'
    """
    if _plain(key) in _PRODUCT:
        return f"{key} follows from dp x pp x tp x cp of the jobs; leave it out"
    own = own_name(key)
    return f"{key} is called {own[0]} here, a key {own[1]}" if own else ""


def _plain(key: str) -> str:
    return key.lower().lstrip("-").replace("-", "_")
