"""Findings from alarms: an alarm concerns one step, a finding consecutive steps.

Alarms are rows of a data frame with the columns of :data:`COLUMNS`. Alarms of one culprit in
consecutive steps become one finding.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from llmprism.model import UNKNOWN, Finding

COLUMNS = (
    "job",  # number of the job
    "culprit",  # number of the culprit, of its kind
    "step",
    "start_ns",
    "end_ns",
    "value",  # the measured value,
    "normal",  # the normal value,
    "distance",  # and their distance in standard deviations
    "confidence",
    "excess_ns",  # time lost
)


def stretches(alarms: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the alarms of every series of consecutive steps of one culprit of one job."""
    rows = alarms.sort_values(["job", "culprit", "step"], kind="stable")
    same = rows[["job", "culprit"]].diff().eq(0).all(axis=1)
    opens = ~(same & rows["step"].diff().le(1))
    for _, stretch in rows.groupby(opens.cumsum(), sort=True):
        yield stretch


def finding(
    alarms: pd.DataFrame,
    level: str,
    symptom: str,
    culprit_kind: str,
    culprit: str,
    evidence: dict[str, object],
) -> Finding:
    """Make one finding from the alarms of one culprit, with the highest of their confidences.

    The published rules compare durations and rates. They find symptoms, but no causes.
    """
    normal = float(alarms["normal"].mean())
    return Finding(
        level=level,
        symptom=symptom,
        cause=UNKNOWN,
        job=int(alarms["job"].iloc[0]),
        culprit_kind=culprit_kind,
        culprit=culprit,
        first_step=int(alarms["step"].min()),
        last_step=int(alarms["step"].max()),
        start_ns=int(alarms["start_ns"].min()),
        end_ns=int(alarms["end_ns"].max()),
        magnitude=float(alarms["value"].mean()) / normal if normal else 1.0,
        cost=float(alarms["excess_ns"].sum()),
        confidence=float(alarms["confidence"].max()),
        evidence={
            "normal": normal,
            "measured": [round(value, 3) for value in alarms["value"].tolist()],
            "sigmas": [round(distance, 3) for distance in alarms["distance"].tolist()],
            **evidence,
        },
    )
