"""Keys of Megatron, DeepSpeed and torchrun get the right hint, at their lines."""

from __future__ import annotations

import pytest

from prism_common.errors import Problem, UserError
from prism_sim.loading.foreign import NAMES
from prism_sim.loading.loader import validate
from prism_sim.scenario.architecture import Experts
from prism_sim.scenario.model_sizes import ModelSizes
from prism_sim.scenario.source import parse_source
from prism_sim.toolkit import Cluster, Job

MODELS = {"of a job": Job, "of model": ModelSizes, "of moe": Experts, "of cluster": Cluster}

TYPED = """\
cluster: {servers: 2}
nnodes: 2
jobs:
  - name: a
    model:
      num_layers: 4
      hidden_size: 64
      heads: 4
      vocab: 100
      sequence_length: 32
    tensor_model_parallel_size: 2
    pipeline-model-parallel-size: 2
    gradient_accumulation_steps: 4
    zero_optimization: {stage: 2}
    world_size: 8
    stepps: 4
    steps: 4
"""


def _problems(text: str) -> list[Problem]:
    with pytest.raises(UserError) as caught:
        validate(parse_source(text, "f"))
    return caught.value.problems


def test_every_name_leads_to_a_key_that_there_is_and_is_none_itself() -> None:
    for foreign, (own, whose) in NAMES.items():
        assert own in MODELS[whose].model_fields, own
        assert foreign not in MODELS[whose].model_fields, foreign


@pytest.mark.parametrize(
    ("line", "own"),
    [
        (2, "servers here, a key of cluster"),
        (6, "layers here, a key of model"),
        (7, "hidden here, a key of model"),
        (11, "tp here, a key of a job"),
        (12, "pp here, a key of a job"),
        (13, "micro_batches here, a key of a job"),
        (14, "zero_stage here, a key of a job"),
        (15, "follows from dp x pp x tp x cp"),
        (16, "did you mean steps?"),
    ],
)
def test_the_hint_is_at_the_line(line: int, own: str) -> None:
    (how,) = [
        problem.how
        for problem in _problems(TYPED)
        if problem.where == f"f:{line}" and "unknown key" in problem.what
    ]
    assert own in how


def test_a_foreign_name_hides_no_mistake_and_makes_none() -> None:
    text = TYPED.replace("tensor_model_parallel_size: 2", "tensor_model_parallel_size: 3")
    assert all("heads of" not in problem.what for problem in _problems(text))


CONVERTED = """\
cluster: {servers: 4, fabric: {kind: rail, leaf_ports: 8}}
jobs:
  - name: a
    model: llama-13b
    pp: 4
    micro_batches: 8
    steps: 2
    %s
"""


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (
            "num-layers-per-virtual-pipeline-stage: 5",  # Megatron: (layers / pp) // this
            "chunks = layers / pp / 5 = 40 / 4 / 5 = 2, a key of a job",
        ),
        ("bucket_cap_mb: 25", "25 * 1048576 / 4 = 6553600"),  # MiB of gradients of 4 bytes
        ("virtual_pipeline_model_parallel_size: 2", "is called chunks here"),
        ("data_parallel_shard_degree: 8", "dp = data_parallel_replicate_degree * data_parallel_"),
        ("use_distributed_optimizer: true", "true is zero_stage: 1"),
        ("sharding_strategy: FULL_SHARD", "FULL_SHARD is zero_stage: 3"),
        ("max_position_embeddings: 8192", "the longest that a model takes"),
        ("num_layers_per_virtual_pipeline_stage: [5]", "chunks = layers / pp / num_layers_per"),
    ],
)
def test_another_quantity_is_converted_and_not_renamed(line: str, hint: str) -> None:
    (problem,) = [one for one in _problems(CONVERTED % line) if "unknown key" in one.what]
    assert hint in problem.how
    assert problem.where == "f:8"
    renamed = f"{line.split(':')[0]} is called"
    assert (renamed in problem.how) == ("is called" in hint)


def test_sizes_that_are_written_out_are_taken_as_well() -> None:
    model = "{layers: 24, hidden: 64, heads: 4, vocab: 100, sequence_length: 32}"
    text = CONVERTED.replace("llama-13b", model) % "num_layers_per_virtual_pipeline_stage: 3"
    (problem,) = [one for one in _problems(text) if "unknown key" in one.what]
    assert "24 / 4 / 3 = 2" in problem.how
