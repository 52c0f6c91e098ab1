"""How often findings are right, by what a method believed: planted answers come out again."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from evaluation.exam.calibrating import map_of


def test_a_method_that_is_too_sure_gets_its_true_share() -> None:
    rng = np.random.default_rng(1)
    believed = rng.uniform(0.2, 1.0, 4000)
    right = rng.uniform(size=4000) < believed**2
    made = map_of(pd.DataFrame({"believed": believed, "right": right}), 0.5)
    shown = np.interp([0.4, 0.6, 0.8], made["confidence"], made["right"])
    assert shown == pytest.approx([0.16, 0.36, 0.64], abs=0.06)


def test_a_map_never_falls() -> None:
    believed = np.linspace(0.1, 1.0, 50)
    made = map_of(pd.DataFrame({"believed": believed, "right": np.arange(50) % 2 == 0}), 0.5)
    assert (np.diff(made["right"]) >= 0).all()
    assert (np.diff(made["confidence"]) > 0).all()


def test_a_few_findings_prove_little() -> None:
    few = pd.DataFrame({"believed": [1.0, 1.0], "right": [True, True]})
    assert map_of(few, 1.0)["right"] == [0.75]
    assert map_of(few, 0.5)["right"] == [0.6]
