"""``prism-sim schema``: the languages of its files as JSON Schemas, for editors and other tools."""

from __future__ import annotations

import json
from enum import StrEnum
from importlib import import_module
from typing import Annotated, Any

import typer

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Language(StrEnum):
    """What a file describes."""

    scenario = "scenario"
    study = "study"
    suite = "suite"
    family = "family"
    operations = "operations"


_MODELS = {
    Language.scenario: "prism_sim.loading.scenario:Scenario",
    Language.study: "prism_sim.studies.study:Study",
    Language.suite: "prism_sim.studies.regression.suite:Suite",
    Language.family: "prism_sim.families.family:Family",
    Language.operations: "prism_sim.operations.study:Study",
}
"""The model of each language."""


def schema(
    of: Annotated[Language, typer.Argument(metavar="LANGUAGE", help="What the file describes.")] = (
        Language.scenario
    ),
) -> None:
    """Print the language of scenarios, studies, suites, families or operations as a JSON Schema."""
    print(json.dumps(schema_of(of), indent=1))


def schema_of(language: Language) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a language."""
    module, _, model = _MODELS[language].partition(":")
    return {"$schema": DIALECT, **getattr(import_module(module), model).model_json_schema()}
