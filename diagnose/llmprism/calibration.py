"""How often findings of a kind were right, by the confidence that a method gave them.

A posterior is too sure wherever its model is wrong. So the confidence of a finding is what such
findings were worth on worlds with a known truth: one monotone map for each kind of answer, made by
``python -m evaluation calibrate`` and kept as data, with its date and its number of findings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

MODEL = "model_confidence"
"""The column with what the method itself believed."""

MAPS = Path(__file__).with_name("calibration.json")
ANY = "any"
"""The map of all findings, for kinds that are too rare to have one."""

ORDER = 0.01
"""Share of the model's own confidence in the result: findings stay in their order."""

NOBODY = "nobody"
"""The kind of findings that name no culprit, only a slow job."""

_OUTSIDE = ("other_traffic", "rerouted", "fewer_uplinks")


def kind_of(level: str, symptom: str, cause: str) -> str:
    """The kind of answer that a finding is.

    >>> kind_of("rank", "slow_passes", "slow_gpu"), kind_of("rank", "stopped", "hang")
    ('rank', 'stop')
    >>> kind_of("network", "rerouted", "ecmp"), kind_of("job", "slow_steps", "unknown")
    ('outside', 'nobody')
    """
    if (level, cause) == ("job", "unknown"):
        return NOBODY
    if symptom == "stopped":
        return "stop"
    return "outside" if symptom in _OUTSIDE else level


def calibrated(findings: pd.DataFrame, method: str) -> pd.DataFrame:
    """``findings`` with the confidence that such findings deserve, each in [0, 1].

    Rare kinds have the map of all findings. The findings of a method without maps stay as they are.
    """
    if method not in _maps():
        return findings
    model = findings["confidence"].astype(float)
    kinds = [*map(kind_of, findings["level"], findings["symptom"], findings["cause"])]
    worth = [_worth(method, kind, own) for kind, own in zip(kinds, model.tolist(), strict=True)]
    return findings.assign(confidence=np.array(worth, float), **{MODEL: model})


def _worth(method: str, kind: str, model: float) -> float:
    kinds = _maps()[method]["kinds"]
    known = kinds.get(kind) or kinds.get(ANY)
    if known is None:
        return model
    share = float(np.interp(model, known["confidence"], known["right"]))
    return (1 - ORDER) * share + ORDER * model


@cache
def _maps() -> Mapping[str, Any]:
    content: dict[str, Any] = json.loads(MAPS.read_text(encoding="utf-8"))
    return content
