"""No number of a scenario is without limits: found by walking every model there is."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel

from prism_sim.collector.config import ORDER as EFFECTS
from prism_sim.faults import KINDS as FAULTS
from prism_sim.loading.scenario import Scenario


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
