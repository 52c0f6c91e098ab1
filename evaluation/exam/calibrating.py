"""``python -m evaluation calibrate``: how often findings were right on worlds for development.

Findings of one kind are put in order of what the method believed of them. Isotonic regression cuts
this order into blocks with a share of right ones that only rises. A block of n findings of which k
are right counts as (k + 1) / (n + 2): a few findings prove little (Laplace's rule of succession).
And no block is better than with ``ENOUGH`` more findings that are right as often as all are. Kinds
with fewer findings than that have the map of all.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from evaluation.exam import log
from evaluation.exam.worlds import RESULTS, World, scenario_of, simulated, worlds
from llmprism.calibration import ANY, MAPS, MODEL, NOBODY, kind_of
from llmprism.numerics.arrays import Floats, Ints
from llmprism.pipeline import diagnose
from prism_common.errors import Problem, UserError
from prism_common.files import replacing
from prism_sim.score.alarms import alarms_of
from prism_sim.score.load import load
from prism_sim.studies.pool import outcomes
from prism_sim.toolkit import default_processes

METHOD = "prism"
ENOUGH = 8
"""Findings of which a kind has a map of its own: fewer move it by more than a tenth each."""

DIGITS = 2
"""Of what is believed: findings that differ by less are one place of the order."""


def calibrate(number: int) -> str:
    """Diagnose ``number`` worlds of each family for development; write the maps, and say so."""
    asked = worlds("develop", number)
    done = [outcome for _, outcome in outcomes(findings_of, asked, default_processes())]
    if failed := [outcome.error for outcome in done if outcome.result is None]:
        raise UserError(Problem(f"{len(failed)} worlds failed: {failed[0]}", "calibrate"))
    tables = [outcome.result for outcome in done if outcome.result is not None]
    findings = pd.concat(tables, ignore_index=True)
    known = findings.groupby("kind").filter(lambda own: len(own) >= ENOUGH)
    share = float(findings["right"].mean())
    kinds = {str(kind): map_of(own, share) for kind, own in known.groupby("kind")}
    kinds[ANY] = map_of(findings, share)
    made = {"date": log.today(), "worlds": len(asked), "findings": len(findings), "kinds": kinds}
    with replacing(MAPS) as partial:
        partial.write_text(json.dumps({METHOD: made}, indent=1) + "\n", encoding="utf-8")
    return f"{MAPS.name}: {len(findings)} findings of {len(asked)} worlds"


def findings_of(world: World) -> pd.DataFrame:
    """What the method believed of its findings in one world, and which were right.

    Findings that count neither way are left out, but for those that name nobody: they are right
    where a job is slow.
    """
    run = simulated(scenario_of(world, RESULTS / "drawn"), RESULTS / "worlds")
    diagnose(run.flows, run.topology, method=METHOD).write(run.diagnosis_folder)
    alarms = alarms_of(load(run))
    table = alarms.findings.assign(
        right=np.asarray(alarms.right.any(axis=0), bool),
        kind=[*map(kind_of, *(alarms.findings[name] for name in ("level", "symptom", "cause")))],
        believed=pd.read_parquet(run.diagnosis_folder / "findings.parquet")[MODEL],
    )
    nobody = table["kind"] == NOBODY
    table["right"] |= nobody & np.asarray(alarms.near.any(axis=0), bool)
    counts = np.isin(alarms.marks, ("right", "wrong")) | nobody
    return table.loc[counts, ["kind", "believed", "right"]]


def map_of(findings: pd.DataFrame, share: float) -> dict[str, Any]:
    """The map of one kind, from the columns ``believed`` and ``right``; ``share`` of all is right.

    >>> table = pd.DataFrame({"believed": [0.2, 0.9, 0.8], "right": [False, True, True]})
    >>> made = map_of(table, 0.5)
    >>> made["confidence"], made["right"]
    ([0.2, 0.85], [0.333, 0.6])
    """
    believed = findings["believed"].to_numpy(float).round(DIGITS)
    right = findings["right"].to_numpy(float)
    block = _blocks(believed, right)
    number, true = np.bincount(block), np.bincount(block, right)
    beside_all = (true + ENOUGH * share) / (number + ENOUGH)
    rising = np.maximum.accumulate(np.minimum((true + 1) / (number + 2), beside_all))
    return {
        "findings": len(findings),
        "confidence": (np.bincount(block, believed) / number).round(3).tolist(),
        "right": rising.round(3).tolist(),
    }


def _blocks(believed: Floats, right: Floats) -> Ints:
    """The block of an isotonic regression that each finding is in, numbered upwards."""
    from sklearn.isotonic import IsotonicRegression

    fitted = IsotonicRegression().fit_transform(believed, right)
    blocks: Ints = np.unique(fitted.round(9), return_inverse=True)[1].ravel()
    return blocks
