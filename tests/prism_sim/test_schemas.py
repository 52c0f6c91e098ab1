"""JSON Schemas of all languages, and registered kinds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import Field, create_model

from llmprism import model
from prism_common import kinds
from prism_common.kinds import GroupKind
from prism_sim.commands.schemas import Language, schema_of
from prism_sim.faults import KINDS
from prism_sim.run_folder import TRUTH
from prism_sim.scenario.presets import PRESETS
from prism_sim.score.parallelism import AXES
from prism_sim.toolkit import Closed, paint


def test_every_kind_has_a_colour():
    assert set(kinds.INFERRED) <= set(paint.KINDS)


def test_a_diagnosis_knows_every_kind_of_the_truth_and_one_for_doubt():
    assert set(model.KINDS) == {*kinds.TRAFFIC, kinds.UNKNOWN}
    assert kinds.UNKNOWN not in kinds.TRAFFIC


def test_groups_and_layouts_use_kinds_of_traffic():
    assert set(GroupKind.__args__) < set(kinds.TRAFFIC)
    assert set(AXES) < set(kinds.TRAFFIC)
    assert set(AXES) <= set(TRUTH["ranks"].names)


@pytest.fixture(scope="module", params=Language)
def schema(request: pytest.FixtureRequest) -> dict[str, Any]:
    return schema_of(request.param)


def models(schema: dict[str, Any]) -> dict[str, Any]:
    """All models of a schema by name; that of a file itself may be one of several."""
    whole = {"file": schema} if "properties" in schema else {}
    return {name: part for name, part in (whole | schema["$defs"]).items() if "properties" in part}


def test_a_schema_is_json_and_closed(schema: dict[str, Any]) -> None:
    assert json.loads(json.dumps(schema)) == schema
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert [name for name, part in models(schema).items() if part["additionalProperties"]] == []


def test_every_reference_leads_somewhere(schema: dict[str, Any]) -> None:
    text = json.dumps(schema)
    named = {part.split('"')[0] for part in text.split('"#/$defs/')[1:]}
    assert named == set(schema["$defs"])


def test_every_field_documents_itself(schema: dict[str, Any]) -> None:
    bare = [
        f"{name}.{key}"
        for name, part in models(schema).items()
        for key, about in part["properties"].items()
        if not {"description", "const", "$ref"} & about.keys()  # a model describes itself
    ]
    assert bare == []


def test_scenarios_name_presets_and_fault_kinds() -> None:
    schema = schema_of(Language.scenario)
    named, written_out = schema["$defs"]["Job"]["properties"]["model"]["anyOf"]
    assert named["enum"] == list(PRESETS)
    assert written_out == {"$ref": "#/$defs/ModelSizes"}
    fault = schema["properties"]["faults"]["items"]
    assert list(fault["discriminator"]["mapping"]) == sorted(KINDS)


def test_an_interval_may_be_a_number_of_seconds() -> None:
    checkpoint = schema_of(Language.operations)["$defs"]["Synchronous"]["properties"]
    assert {"type": "number", "exclusiveMinimum": 0} in checkpoint["interval"]["anyOf"]


class Wheel(Closed):
    """A part of a file."""

    spokes: int = Field(description="How many.")
    rim: str = "steel"
    """What it
    is made of."""
    hub: int = 1
    """Left out: 1."""


class WoodenWheel(Wheel):
    """A part with other defaults."""

    rim: str = "ash"
    hub: int = Field(default=2, description="Its width.")


@pytest.mark.parametrize(
    ("part", "texts"),
    [
        (Wheel, {"spokes": "How many.", "rim": "What it is made of.", "hub": "Left out: 1."}),
        (WoodenWheel, {"spokes": "How many.", "rim": None, "hub": "Its width."}),
        (create_model("Made", __base__=Closed, __module__="no file", rim=str), {"rim": None}),
    ],
)
def test_a_field_is_described_in_it_or_below_it(part: type[Closed], texts: dict[str, Any]) -> None:
    fields = part.model_json_schema()["properties"]
    assert {name: field.get("description") for name, field in fields.items()} == texts
