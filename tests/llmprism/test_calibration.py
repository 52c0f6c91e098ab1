"""The confidence of findings is what such findings were worth, and keeps their order."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from llmprism.calibration import MAPS, calibrated
from llmprism.diagnosis import conform

KINDS = [
    ("rank", "slow_passes"), ("network", "slow_transfers"), ("network", "rerouted"),
    ("rank", "stopped"), ("job", "slow_steps"), ("group", "slow_passes"),
]  # fmt: skip


def believed(level: str, symptom: str, number: int = 101) -> pd.DataFrame:
    table = pd.DataFrame({"confidence": np.linspace(0, 1, number)})
    return table.assign(level=level, symptom=symptom, cause="x", finding=range(number))


@pytest.mark.parametrize(("level", "symptom"), KINDS)
def test_who_is_surer_stays_surer(level: str, symptom: str) -> None:
    found = calibrated(believed(level, symptom), "prism")
    assert (np.diff(found["confidence"]) > 0).all()
    assert found["confidence"].between(0, 1).all()
    assert found["model_confidence"].tolist() == believed(level, symptom)["confidence"].tolist()


def test_a_method_without_a_map_is_believed() -> None:
    table = believed("rank", "slow_passes")
    assert calibrated(table, "paper").equals(table)


def test_a_diagnosis_is_calibrated_once() -> None:
    table = pd.concat([believed(*kind, 5) for kind in KINDS], ignore_index=True)
    rest = {"job": "a", "culprit_kind": "address", "culprit": "n", "evidence": "{}"}
    numbers = dict.fromkeys(["first_step", "last_step", "start_ns", "end_ns", "magnitude"], 0)
    table = table.assign(**rest, **numbers, cost=0.0)
    once = conform("prism", {"findings": table})[0]["findings"]
    twice = conform("prism", {"findings": once})[0]["findings"]
    assert once["confidence"].tolist() == twice["confidence"].tolist()
    assert once["confidence"].tolist() != table["confidence"].tolist()


def test_the_maps_say_from_how_many_findings_they_are() -> None:
    made = json.loads(MAPS.read_text())["prism"]
    assert made["findings"] == made["kinds"]["any"]["findings"]
    assert all(len(one["confidence"]) == len(one["right"]) for one in made["kinds"].values())
