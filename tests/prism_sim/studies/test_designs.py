"""The places of a study: each design keeps its promises, for any paths and ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from prism_sim.studies.designs import (
    DrawnDesign,
    Grid,
    LatinHypercube,
    PlaceList,
    RandomDesign,
    Range,
    Variants,
)

RANGES: dict[str, Any] = {
    "faults.0.factor": {"low": 0.5, "high": 1.0},
    "collector.idle_gap_us": {"low": 10, "high": 1e6, "scale": "log"},
    "jobs.0.dp": {"low": 2, "high": 9, "whole": True},
    "jobs.0.placement": {"values": ["packed", "spread"]},
}
DRAWN = [RandomDesign, LatinHypercube]


def drawn(kind: type[DrawnDesign], samples: int, **over: Any) -> list[dict[str, Any]]:
    design = kind.model_validate({"samples": samples, "seed": 3, "over": over or RANGES})
    return [place.at for place in design.places()]


def test_a_grid_has_all_combinations_and_an_empty_one_a_single_place() -> None:
    grid = Grid.model_validate({"a.b": [1, 2], "c": ["x", None]})
    assert [place.settings for place in grid.places()] == [
        {"a.b": 1, "c": "x"}, {"a.b": 1, "c": None}, {"a.b": 2, "c": "x"}, {"a.b": 2, "c": None},
    ]  # fmt: skip
    assert (grid.size, Grid({}).size, [p.at for p in Grid({}).places()]) == (4, 1, [{}])


def test_a_path_that_a_listed_place_leaves_out_is_not_set() -> None:
    places = [*PlaceList.model_validate([{"a": 1}, {"b": 2}]).places()]
    assert [place.settings for place in places] == [{"a": 1}, {"b": 2}]
    assert [place.at for place in places] == [{"a": 1, "b": None}, {"a": None, "b": 2}]


def test_variants_are_known_by_their_names() -> None:
    (place,) = Variants.model_validate({"cheap": {"a": 1, "b": 2}}).places()
    assert (place.at, place.settings) == ({"variant": "cheap"}, {"a": 1, "b": 2})


@pytest.mark.parametrize("kind", DRAWN)
def test_draws_of_a_path_depend_on_no_other_path_and_on_no_order(kind: type[DrawnDesign]) -> None:
    whole = drawn(kind, 20)
    turned = drawn(kind, 20, **dict(reversed(RANGES.items())))
    assert whole == turned
    for path, wanted in RANGES.items():
        assert drawn(kind, 20, **{path: wanted}) == [{path: place[path]} for place in whole]


def test_a_larger_random_design_contains_the_smaller_one() -> None:
    assert drawn(RandomDesign, 30)[:12] == drawn(RandomDesign, 12)


@pytest.mark.parametrize("kind", DRAWN)
def test_another_seed_gives_other_places(kind: type[DrawnDesign]) -> None:
    one, other = (
        [p.at for p in kind.model_validate({"samples": 5, "seed": seed, "over": RANGES}).places()]
        for seed in (0, 1)
    )
    assert one != other


@given(st.integers(1, 60), st.integers(0, 10**6))
def test_a_latin_hypercube_has_one_value_in_each_part_of_each_range(
    samples: int, seed: int
) -> None:
    design = LatinHypercube.model_validate({"samples": samples, "seed": seed, "over": RANGES})
    for path in RANGES:
        parts = np.floor(design.uniforms(path) * samples).astype(int)
        assert sorted(parts) == list(range(samples))
    if samples >= 8:
        quantiles = [design.uniforms(path) for path in ("faults.0.factor", "jobs.0.dp")]
        assert (np.argsort(quantiles[0]) != np.argsort(quantiles[1])).any()


@given(st.floats(0, 1, exclude_max=True), st.floats(1e-9, 1e9), st.floats(1.001, 1e6))
def test_values_lie_within_their_range(uniform: float, low: float, ratio: float) -> None:
    for scale in ("linear", "log"):
        value = Range.model_validate({"low": low, "high": low * ratio, "scale": scale})
        assert low <= value.value(uniform) <= low * ratio


@given(st.integers(1, 10**6), st.integers(1, 1000), st.sampled_from(["linear", "log"]))
def test_whole_numbers_reach_both_ends(low: int, width: int, scale: str) -> None:
    wanted = Range.model_validate({"low": low, "high": low + width, "scale": scale, "whole": True})
    ends = [wanted.value(uniform) for uniform in (0.0, float(np.nextafter(1, 0)))]
    assert ends == [low, low + width]
    assert isinstance(ends[0], int)


def test_random_values_have_the_distribution_of_their_scale() -> None:
    """The shares of a thousand draws, within four standard errors."""
    places = drawn(RandomDesign, 1000)
    margin = 4 * np.sqrt(0.25 / 1000)
    assert abs(np.mean([p["faults.0.factor"] < 0.75 for p in places]) - 0.5) < margin
    middle = np.sqrt(10 * 1e6)  # half of the decades are below
    assert abs(np.mean([p["collector.idle_gap_us"] < middle for p in places]) - 0.5) < margin
    assert abs(np.mean([p["jobs.0.placement"] == "packed" for p in places]) - 0.5) < margin


@pytest.mark.parametrize(
    ("wanted", "what"),
    [
        ({"low": 1}, "low and high, or values"),
        ({"low": 2, "high": 1}, "low must be below high"),
        ({"low": 0, "high": 1, "scale": "log"}, "low must be above 0"),
        ({"low": 0.5, "high": 2, "whole": True}, "whole numbers"),
        ({"low": 1, "high": 2, "values": [1]}, "either values"),
        ({"low": 1, "high": 2, "scale": "cubic"}, "'linear' or 'log'"),
    ],
)
def test_an_impossible_range_is_refused(wanted: dict[str, Any], what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        Range.model_validate(wanted)
