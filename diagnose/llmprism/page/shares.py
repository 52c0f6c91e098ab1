"""How the servers of a job spend their steps: computing, communicating, waiting."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from llmprism.page.cards import Card
from llmprism.page.tables import Tables

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

PARTS = ("work", "transfers", "waiting")
_SERVERS = 64


def shares_of(tables: Tables, job: str, cards: list[Card]) -> dict[str, Any] | None:
    """The shares of a job's steps outside all findings, and in each; None if it has no spans."""
    steps = tables.job_steps(job).index
    if not len(steps) or not (tables.spans["job"] == job).any():
        return None
    addresses, times = tables.addresses_of(job), tables.step_times(job)
    inside = {str(card.number): _within(steps, card) for card in cards}
    outside = ~np.any([np.zeros(len(steps), bool), *inside.values()], axis=0)
    windows = {"usual": outside if outside.any() else np.ones(len(steps), bool), **inside}
    servers = tables.servers_of(job)
    named = {tables.parts.server(one) for card in cards for one in card.addresses}
    shown = sorted(servers, key=lambda name: name not in named)[:_SERVERS]
    shown = [name for name in servers if name in shown]
    return {
        "job": job,
        "servers": shown,
        "omitted": len(servers) - len(shown),
        "parts": PARTS,
        "windows": {
            name: _by_server(tables, addresses, times, columns, shown)
            for name, columns in windows.items()
            if columns.any()
        },
    }


def _within(steps: pd.Index, card: Card) -> Flags:
    return np.asarray((steps >= card.first_step) & (steps <= card.last_step), bool)


def _by_server(
    tables: Tables,
    addresses: list[str],
    times: dict[str, Floats],
    columns: Flags,
    servers: list[str],
) -> list[list[float]]:
    """For each server, its mean times in a step by part [ms]."""
    server = np.array([tables.parts.server(address) for address in addresses], object)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mean of empty slice")
        means = {
            part: np.array(
                [np.nanmean(times[part][np.ix_(server == name, columns)]) for name in servers]
            )
            for part in PARTS
        }
    rows = np.nan_to_num(np.stack([means[part] for part in PARTS], axis=1)) / 1e6
    return [[round(value, 3) for value in row] for row in rows.tolist()]
