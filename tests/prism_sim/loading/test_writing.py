"""A scenario written out is the same scenario, and the schema describes the language."""

import json
from pathlib import Path

import pytest

from prism_sim.loading.bundled import bundled
from prism_sim.loading.writing import resolved
from prism_sim.toolkit import Scenario, load_scenario

SCENARIOS = Path(__file__).parents[3] / "scenarios"


def _scenario(**job: object) -> Scenario:
    fields = {"name": "alpha", "model": "llama-7b", "dp": 2, "micro_batches": 4, "steps": 3}
    fault = {"kind": "slow_gpu", "job": "alpha", "rank": 1, "factor": 0.5, "from_step": 2}
    return Scenario.model_validate(
        {"cluster": {"servers": 2}, "jobs": [fields | job], "faults": [fault]}
    )


def test_default_values_are_written() -> None:
    values = resolved(_scenario())
    assert values["cluster"]["fabric"]["uplinks"] == 64
    assert values["cluster"]["fabric"]["uplink_gbps"] == 400
    assert values["jobs"][0]["bucket_params"] == 40_000_000
    assert values["jobs"][0]["sequence_length"] == 4096
    assert values["jobs"][0]["model"]["kv_heads"] == 32
    assert json.loads(json.dumps(values)) == values


def test_a_resolved_scenario_resolves_to_itself() -> None:
    values = resolved(_scenario(placement={"servers": ["s0001"]}, overlap_gradients=False))
    assert resolved(Scenario.model_validate(values)) == values


@pytest.mark.parametrize("name", bundled())
def test_every_bundled_scenario_is_valid(name: str) -> None:
    assert load_scenario(bundled()[name]).name


def test_only_suites_studies_and_families_are_not_scenarios() -> None:
    files = {
        path.relative_to(SCENARIOS).with_suffix("").as_posix() for path in SCENARIOS.rglob("*.yaml")
    }
    others = files - set(bundled())
    known = ("regression", "paper/e1", "hostile")  # a suite, and what is drawn from
    folders = ("studies/", "families/", "operations/")
    assert all(name in known or name.startswith(folders) for name in others)
