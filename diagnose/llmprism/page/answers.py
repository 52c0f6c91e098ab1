"""The answers at the beginning of the report: what is slow, since when, whose fault, at what cost.

All of it comes from the diagnosis, the flow records and the topology; no truth is needed. Each
part of the page is computed by a module here, as plain values that the page's script draws:
:mod:`~.cards` (a sentence for each finding), :mod:`~.delays` (servers by steps),
:mod:`~.close_up` (the timeline around a finding) and :mod:`~.leaves` (rates); the shares of
computation, communication and waiting stand here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from llmprism.page.cards import Card, cards_of, checked
from llmprism.page.close_up import close_ups
from llmprism.page.delays import delay_map
from llmprism.page.leaves import leaf_rates
from llmprism.page.tables import Tables

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def answers(tables: Tables) -> dict[str, Any]:
    """Cards for the template, and ``data`` for the script of the page."""
    cards = cards_of(tables)
    jobs = _jobs_shown(tables, cards)
    data = {
        "origin_ms": tables.origin_ns / 1e6,
        "findings": [card.as_data(tables) for card in cards],
        "maps": _for_each(jobs, cards, tables, delay_map),
        "close_ups": close_ups(tables, jobs, cards),
        "leaves": leaf_rates(tables),
        "shares": _for_each(jobs, cards, tables, shares_of),
    }
    return {"cards": cards, "checked": checked(tables), "data": data}


_JOBS = 6
_Make = Callable[[Tables, str, list[Card]], dict[str, Any] | None]


def _for_each(
    jobs: list[str], cards: list[Card], tables: Tables, make: _Make
) -> list[dict[str, Any]]:
    """What ``make`` returns for each job and the cards about it, without None."""
    made = (make(tables, job, [card for card in cards if card.job == job]) for job in jobs)
    return [one for one in made if one is not None]


def _jobs_shown(tables: Tables, cards: list[Card]) -> list[str]:
    """Jobs with findings in the order of these, then the others, the largest first."""
    sizes = tables.jobs["job"].astype(str).value_counts(sort=False)
    largest = sorted(sizes.index, key=lambda job: (-int(sizes[job]), len(job), job))
    with_findings = [card.job for card in cards if card.job in sizes.index]
    return list(dict.fromkeys([*with_findings, *largest]))[:_JOBS]


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
