"""GPUs by name, in place of numbers."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from prism_sim.scenario.cluster import Cluster
from prism_sim.scenario.gpus import GPUS


def cluster(**fields: object) -> Cluster:
    return Cluster.model_validate({"servers": 2} | fields)


@pytest.mark.parametrize("name", GPUS)
def test_a_name_gives_all_numbers_and_each_has_a_source(name):
    data, made = GPUS[name], cluster(gpu=name)
    assert made.gpu.peak_tflops == data.peak_tflops
    assert made.gpu.memory_gbytes_per_s == data.memory_gbytes_per_s
    assert made.nvlink_gbps == data.nvlink_gbps
    assert "data sheet" in data.source or "arXiv" in data.source


def test_the_default_is_an_h100():
    assert cluster() == cluster(gpu="h100") == cluster(gpu="H100")


def test_numbers_next_to_a_name_are_used():
    assert cluster(gpu="h800", nvlink_gbps=3200).nvlink_gbps == 3200


def test_numbers_are_accepted_as_before():
    assert cluster(gpu={"peak_tflops": 500}).gpu.peak_tflops == 500


def test_a_resolved_cluster_reads_back_as_the_same():
    made = cluster(gpu="b200")
    assert Cluster.model_validate(made.model_dump()) == made


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(ValidationError, match="did you mean h100"):
        cluster(gpu="h10")


def test_editors_are_offered_the_names():
    schema = Cluster.model_json_schema()
    assert [*GPUS] in [option.get("enum") for option in schema["properties"]["gpu"]["anyOf"]]
