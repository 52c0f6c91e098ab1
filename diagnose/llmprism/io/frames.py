"""The results of the stages as tables of a diagnosis: endpoint codes become names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from llmprism.io.parts import InParts
from llmprism.io.tables import DIAGNOSIS
from llmprism.model import KINDS, SPAN_KINDS, Finding, Groups, Jobs, Pairs, Steps, Timeline


def tables(
    addresses: Sequence[str],
    jobs: Jobs,
    pairs: Pairs,
    timeline: Timeline,
    groups: Groups,
    findings: Sequence[Finding],
) -> dict[str, pd.DataFrame | InParts]:
    """Return the tables of :data:`llmprism.io.tables.DIAGNOSIS` by name, without ``layouts``."""
    return {
        "jobs": _members(addresses, jobs),
        "pairs": _pairs(addresses, jobs, pairs),
        "groups": _groups(addresses, jobs, groups),
        "steps": _steps(addresses, jobs, timeline.steps),
        "spans": InParts(partial(_spans, addresses, jobs, timeline)),
        "findings": _findings(jobs, findings),
    }


def _members(addresses: Sequence[str], jobs: Jobs) -> pd.DataFrame:
    member = np.flatnonzero(jobs.of_address >= 0)
    member = member[np.argsort(jobs.of_address[member], kind="stable")]
    return pd.DataFrame(
        {"job": _named(jobs.names, jobs.of_address[member]), "address": _named(addresses, member)}
    )


def _pairs(addresses: Sequence[str], jobs: Jobs, pairs: Pairs) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "job": _named(jobs.names, pairs.job),
            "src": _named(addresses, pairs.src),
            "dst": _named(addresses, pairs.dst),
            "kind": _named(KINDS, pairs.kind),
            "kind_unrefined": _named(KINDS, pairs.kind_unrefined),
            "confidence": pairs.confidence,
        }
    )


def _groups(addresses: Sequence[str], jobs: Jobs, groups: Groups) -> pd.DataFrame:
    position = pd.Series(groups.position, dtype="Int64")
    return pd.DataFrame(
        {
            "job": _named(jobs.names, groups.job),
            "kind": _named(KINDS, groups.kind),
            "group": groups.group,
            "address": _named(addresses, groups.address),
            "position": position.mask(position < 0),
        }
    )


def _steps(addresses: Sequence[str], jobs: Jobs, steps: Steps) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "job": _named(jobs.names, jobs.of_address[steps.address]),
            "address": _named(addresses, steps.address),
            "step": steps.step,
            "start_ns": steps.start_ns,
            "end_ns": steps.end_ns,
            "dp_end_ns": steps.dp_end_ns,
            "confidence": steps.confidence,
        }
    )


def _spans(addresses: Sequence[str], jobs: Jobs, timeline: Timeline) -> Iterator[pd.DataFrame]:
    steps = timeline.steps
    names = {
        "job": as_categories(jobs.names, jobs.of_address[steps.address]),
        "address": as_categories(addresses, steps.address),
    }
    number = steps.step.astype(np.int32)
    for spans in timeline.spans():
        yield pd.DataFrame(
            {
                **{name: of_step.take(spans.row) for name, of_step in names.items()},
                "step": number[spans.row],
                "kind": as_categories(SPAN_KINDS, spans.kind),
                "start_ns": spans.start_ns,
                "end_ns": spans.end_ns,
            },
            copy=False,  # a table of spans is larger than that of the records
        )


def as_categories(names: Sequence[str], codes: NDArray[Any]) -> pd.Categorical:
    """Return the name of every code as a category: one or two bytes a row for few names.

    Categories are in order of their names, so that a table sorts as it does with text.
    """
    order = sorted(range(len(names)), key=names.__getitem__)
    place = np.empty(len(names), np.min_scalar_type(-max(len(names), 1)))
    place[order] = np.arange(len(names))
    categories = pd.Index([names[i] for i in order], dtype="str")
    return pd.Categorical.from_codes(place[codes], categories=categories)


def _named(names: Sequence[str], codes: NDArray[Any]) -> pd.Series[str]:
    """Return the name of every code, without one Python string per row."""
    pool = pd.Series(list(names), dtype="str")
    return pool.take(codes.astype(np.int64)).reset_index(drop=True)


def _findings(jobs: Jobs, findings: Sequence[Finding]) -> pd.DataFrame:
    rows = [
        {
            **vars(one),
            "finding": number,
            "job": jobs.names[one.job],
            "evidence": json.dumps(one.evidence, sort_keys=True),
        }
        for number, one in enumerate(findings)
    ]
    return pd.DataFrame(rows, columns=DIAGNOSIS["findings"].names)
