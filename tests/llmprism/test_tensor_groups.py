"""A GPU whose tensor-parallel group hides it is named as one of the group."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from llmprism.part_names import Parts
from llmprism.sentences import JobFacts, finding_text, tensor_groups


def parts(servers: int, nics: int, share: int = 1, **more: Any) -> Parts:
    """Servers with NICs of ``share`` GPUs each."""
    return Parts.of(
        {
            "endpoints": [
                {"address": f"10.0.{s}.{n}", "server": f"s{s}", "nic": n, **more,
                 "gpus": list(range(n * share, (n + 1) * share))}
                for s in range(servers) for n in range(nics)
            ]
        }
    )  # fmt: skip


def layout(tp: int, confidence: float = 0.9) -> pd.DataFrame:
    return pd.DataFrame({"job": ["job-0"], "tp": [tp], "confidence": [confidence]})


def sentence(of: Parts, culprit: str, tp: int, **values: Any) -> str:
    groups = tensor_groups([*of.endpoints], layout(tp), of)
    row = {"cause": "slow_gpu", "culprit_kind": "address", "culprit": culprit, "magnitude": 0.3}
    row |= {"first_step": 3, "last_step": 5, "evidence": json.dumps({}), "job": "job-0"} | values
    return finding_text(row, of, JobFacts(groups=groups)).what


@pytest.mark.parametrize(
    ("of", "culprit", "tp", "name"),
    [
        (parts(2, 8), "10.0.1.5", 4, "One of GPUs 4 to 7 of server s1 computes"),
        (parts(2, 8), "10.0.1.5", 2, "One of GPUs 4, 5 of server s1 computes"),
        (parts(2, 8), "10.0.1.5", 1, "GPU 5 of server s1 computes"),
        (parts(2, 8), "10.0.1.5", -1, "GPU 5 of server s1 computes"),
        (parts(2, 4, share=2), "10.0.0.1", 4, "One of GPUs 0 to 3 of server s0 computes"),
        (parts(4, 2, domain="d0"), "10.0.1.0", 4, "One of the GPUs of servers s[0-1] computes"),
        (parts(2, 6), "10.0.1.5", 4, "GPU 5 of server s1 computes"),
    ],
)  # fmt: skip
def test_a_gpu_is_one_of_its_tensor_group(of: Parts, culprit: str, tp: int, name: str) -> None:
    assert sentence(of, culprit, tp).startswith(name)


def test_a_nic_is_named_itself_and_an_unlikely_layout_says_nothing() -> None:
    of = parts(2, 8)
    assert sentence(of, "10.0.1.5", 4, cause="slow_nic").startswith("NIC 5 of server s1")
    assert tensor_groups([*of.endpoints], layout(4, 0.4), of) == {}
