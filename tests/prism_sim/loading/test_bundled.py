"""Bundled scenarios are valid, and nothing else lies beside them."""

from pathlib import Path

import pytest

from prism_sim.loading.bundled import bundled
from prism_sim.toolkit import load_scenario

SCENARIOS = Path(__file__).parents[3] / "scenarios"


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
