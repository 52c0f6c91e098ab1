"""Files of all kinds of nonsense, and limits of every number."""

from __future__ import annotations

import copy
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
import yaml
from annotated_types import Ge, Gt, Le, Lt
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from prism_common.errors import Problem, UserError
from prism_sim.collector.config import ORDER as EFFECTS
from prism_sim.faults import KINDS as FAULTS
from prism_sim.loading.loader import validate
from prism_sim.scenario.source import Source, parse_source
from prism_sim.toolkit import Scenario

WORLD = """\
name: world
cluster:
  servers: 3
  gpu: {peak_tflops: 500}
  fabric: {kind: tor, leaf_ports: 8, uplinks: 8, spines: 2}
jobs:
  - {name: a, model: llama-7b, dp: 2, tp: 4, micro_batches: 2, steps: 4, placement: spread}
  - name: b
    model: {layers: 4, hidden: 64, heads: 4, vocab: 100, sequence_length: 32}
    pp: 4
    micro_batches: 8
    steps: 4
    placement: {servers: [s0001, s0002]}
faults:
  - {kind: slow_gpu, job: a, rank: 1, factor: 0.5, from_step: 1, to_step: 3}
  - {kind: slow_nic, server: s0001, nic: 2, factor: 0.5, from_s: 1}
  - {kind: slow_link, a: leaf000, b: spine01, factor: 0.5, from_s: 1}
  - {kind: slow_switch, switch: leaf002, factor: 0.5, job: b, from_step: 1}
collector: {idle_gap_us: 500}
duration_s: 60
"""

Way = tuple[str | int, ...]


def _ways(values: Any, above: Way = ()) -> list[Way]:
    """The location of every value of the tree."""
    items = values.items() if isinstance(values, dict) else enumerate(values)
    ways: list[Way] = []
    for key, value in items:
        ways.append((*above, key))
        if isinstance(value, (dict, list)):
            ways += _ways(value, (*above, key))
    return ways


JUNK: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(
        [None, True, -1, 0, 1, 3, 10**30, 0.5, 1e400, "", "a", "slow_gpu", "leaf000", [], {}, [1],
         ["s0001"], {"kind": "slow_gpu"}, {"servers": ["s0001"]}, {"x": 1}, [[]], "kind", "servers"]
    ),
    st.text(max_size=5),
)  # fmt: skip
KEYS = st.sampled_from(["kind", "servers", "explicit", "strategy", "slow_gpu", "x", "tp", "model"])
MUTATIONS = st.lists(
    st.tuples(
        st.sampled_from(_ways(yaml.safe_load(WORLD))),
        st.sampled_from(["replace", "remove", "add"]),
        KEYS,
        JUNK,
    ),
    min_size=1,
    max_size=4,
)


def _mutate(tree: Any, way: Way, how: str, key: str, junk: Any) -> None:
    """Change the value at ``way`` as ``how`` says, if it still exists."""
    try:
        for part in way[:-1]:
            tree = tree[part]
        if how == "add":
            tree[key] = copy.deepcopy(junk)
        elif how == "replace":
            tree[way[-1]] = copy.deepcopy(junk)
        else:
            del tree[way[-1]]
    except (KeyError, IndexError, TypeError):
        return  # an earlier mutation took it away


@given(MUTATIONS)
@settings(max_examples=200)
def test_a_damaged_scenario_is_read_or_refused_line_by_line(
    mutations: list[tuple[Way, str, str, Any]],
) -> None:
    tree = yaml.safe_load(WORLD)
    for way, how, key, junk in mutations:
        _mutate(tree, way, how, key, junk)
    source = parse_source(yaml.safe_dump(tree, sort_keys=False), "f")
    problems = _problems(source)
    assert problems is None or len(problems) > 0
    assert all(problem.where.startswith("f:") and problem.what for problem in problems or ())


def _problems(source: Source) -> list[Problem] | None:
    """The errors of the scenario in ``source``; None if it is valid."""
    try:
        validate(source)
    except UserError as error:
        return error.problems
    return None


def test_the_undamaged_scenario_is_sound() -> None:
    assert validate(parse_source(WORLD, "f")).warnings == []


def models_below(annotation: Any, found: list[type[BaseModel]]) -> list[type[BaseModel]]:
    """``found``, with every model that ``annotation`` leads to."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if annotation not in found:
            found.append(annotation)
            for field in annotation.model_fields.values():
                models_below(field.annotation, found)
                for note in field.metadata:
                    models_below(getattr(note, "json_schema_input_type", None), found)
        return found
    for inner in get_args(annotation):
        models_below(inner, found)
    return found


def numbers_in(annotation: Any, notes: tuple[Any, ...]) -> Iterator[tuple[type, list[Any]]]:
    """Each number in a field's type, with the notes that apply to it, bounds among them."""
    origin = get_origin(annotation)
    if annotation in (int, float):
        yield annotation, [one for note in notes for one in getattr(note, "metadata", [note])]
    elif origin is Annotated:
        inner, *own = get_args(annotation)
        yield from numbers_in(inner, tuple(own))
    elif origin is not Literal:
        is_union = origin in (Union, types.UnionType)
        for inner in get_args(annotation):
            yield from numbers_in(inner, notes if is_union else ())


MODELS = models_below(Scenario, [])
NUMBERS = [
    pytest.param(number, notes, id=f"{model.__name__}.{name}")
    for model in MODELS
    for name, field in model.model_fields.items()
    for number, notes in numbers_in(field.annotation, tuple(field.metadata))
]


def test_the_walk_finds_every_part_of_a_scenario() -> None:
    assert {*FAULTS.values(), *EFFECTS} <= {*MODELS}
    assert len(NUMBERS) > 150


@pytest.mark.parametrize(("number", "notes"), NUMBERS)
def test_every_number_has_both_bounds(number: type, notes: list[Any]) -> None:
    low = [note for note in notes if isinstance(note, Ge | Gt)]
    high = [note for note in notes if isinstance(note, Le | Lt)]
    assert low, "it has no lower bound"
    assert high, "it has no upper bound"
    if number is float:
        assert Gt(0) not in low, "it may come as near to 0 as one likes; give a smallest value"
