"""The answers at the beginning of the report: what is slow, since when, whose fault, at what cost.

All of it comes from the diagnosis, the flow records and the topology; no truth is needed. Each
part of the page is computed by a module here, as plain values that the page's script draws:
:mod:`~.cards` (a sentence for each finding), :mod:`~.delays` (servers by steps),
:mod:`~.close_up` (the timeline around a finding), :mod:`~.leaves` (rates) and :mod:`~.shares`
(computation, communication and waiting).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llmprism.page.cards import Card, cards_of, checked
from llmprism.page.close_up import close_ups
from llmprism.page.delays import delay_map
from llmprism.page.leaves import leaf_rates
from llmprism.page.shares import shares_of
from llmprism.page.tables import Tables

__all__ = ["answers"]


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
