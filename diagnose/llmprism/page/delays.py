"""Delays of servers by steps: how much longer than usual a server took for something.

Three quantities are compared, each with the usual value of the same NIC, which is the lower
quartile of its steps: its own *work* between messages, its *transfers*, and the whole *step*. The
delay of a server is that of its slowest NIC. Ranks wait for each other, so all servers of a job
have long steps together; work and transfers show where a delay begins.
"""

from __future__ import annotations

import base64
import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from llmprism.numerics.missing import nanquantile
from llmprism.page.cards import Card
from llmprism.page.tables import Tables
from llmprism.part_names import natural

Floats = NDArray[np.float64]

MEASURES = ("work", "transfers", "step")
_USUAL = 0.25  # quantile of a NIC's steps: up to three quarters of them may be slow
_CELLS = 60_000  # of a map; more are merged
_SERVERS = 600
_LEVELS = 65_534  # of a delay in the page; one more stands for "unknown"
_PALE = 0.1  # of a step: the colours of a map show at least this range
_VISIBLE = 0.01  # of a step: smaller delays are no reason to show a quantity


def delay_map(tables: Tables, job: str, cards: list[Card]) -> dict[str, Any] | None:
    """The map of a job, None if it has no steps."""
    steps = tables.job_steps(job)
    if not len(steps):
        return None
    addresses, times = tables.addresses_of(job), tables.step_times(job)
    delays = {name: _by_server(tables, addresses, _delay(times[name])) for name in MEASURES}
    servers = tables.servers_of(job)
    _add_stops(delays, steps.index, servers, tables, cards)
    shown = _shown(servers, delays["work"], tables, cards)
    merged = -(-len(shown) * len(steps) // _CELLS)
    usual = float((steps["end_ns"] - steps["start_ns"]).median())
    grids = {name: _merged(delay[shown], merged) for name, delay in delays.items()}
    return {
        "job": job,
        "servers": [servers[row] for row in shown],
        "omitted": len(servers) - len(shown),
        "first": int(steps.index[0]),
        "merged": merged,
        "columns": grids["step"].shape[1],
        "start_ms": _ms(steps["start_ns"], tables)[::merged],
        "end_ms": _ms(steps["end_ns"], tables)[-1],
        "step_ms": round(usual / 1e6, 3),
        "measures": {name: _packed(grid, usual) for name, grid in grids.items()},
        "best": {
            str(card.number): _best(card, tables, servers, delays, usual, steps.index)
            for card in cards
        },
    }


def _delay(times: Floats) -> Floats:
    """Time beyond the usual value of the same address."""
    return np.maximum(times - nanquantile(times, _USUAL)[:, None], 0.0)


def _by_server(tables: Tables, addresses: list[str], delay: Floats) -> Floats:
    """The largest delay of a server's NICs, servers in the order of their names."""
    server = np.array([tables.parts.server(address) for address in addresses], object)
    names = sorted(set(server), key=natural)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN")
        return np.array([np.nanmax(delay[server == name], axis=0) for name in names])


def _shown(servers: list[str], delay: Floats, tables: Tables, cards: list[Card]) -> list[int]:
    """Rows of the servers to show: culprits, then those with the longest delays."""
    if len(servers) <= _SERVERS:
        return list(range(len(servers)))
    named = {tables.parts.server(address) for card in cards for address in card.addresses}
    total = np.nansum(delay, axis=1)
    order = sorted(range(len(servers)), key=lambda row: (servers[row] not in named, -total[row]))
    return sorted(order[:_SERVERS])


def _merged(delay: Floats, count: int) -> Floats:
    """The largest delay of every ``count`` steps."""
    if count <= 1:
        return delay
    missing = -delay.shape[1] % count
    padded = np.pad(delay, ((0, 0), (0, missing)), constant_values=np.nan)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN")
        return np.asarray(np.nanmax(padded.reshape(len(delay), -1, count), axis=2), float)


def _add_stops(
    delays: dict[str, Floats],
    steps: pd.Index,
    servers: list[str],
    tables: Tables,
    cards: list[Card],
) -> None:
    """Add the time of each stop to its step: of all servers, and to the work of the culprit's."""
    for card in cards:
        column = int(np.searchsorted(steps, card.first_step))
        if not card.stopped or column >= len(steps):
            continue
        named = {tables.parts.server(address) for address in card.addresses}
        rows = np.array([server in named for server in servers], bool)
        lasted = float(card.end_ns - card.start_ns)
        delays["step"][:, column] = np.fmax(delays["step"][:, column], lasted)
        delays["work"][rows, column] = np.fmax(delays["work"][rows, column], lasted)


def _packed(delay: Floats, usual: float) -> dict[str, Any]:
    """Levels as base64 of 16-bit numbers, the milliseconds of one level, and the end of the scale.

    The scale ends at the largest delay, but not below a tenth of a usual step (all smaller delays
    are pale), and not above a whole one: a stop would make all others pale.
    """
    known = np.isfinite(delay)
    largest = float(delay[known].max(initial=max(_PALE * usual, 1.0)))
    unit = largest / _LEVELS
    levels = np.where(known, np.round(np.where(known, delay, 0) / unit), _LEVELS + 1)
    text = base64.b64encode(levels.astype("<u2").tobytes()).decode()
    return {
        "unit_ms": unit / 1e6,
        "levels": text,
        "largest_ms": round(largest / 1e6, 3),
        "scale_ms": round(min(largest, max(usual, 1.0)) / 1e6, 3),
    }


def _best(
    card: Card,
    tables: Tables,
    servers: list[str],
    delays: dict[str, Floats],
    usual: float,
    steps: pd.Index,
) -> str:
    """The measure in which the culprit differs most from the others in the finding's steps."""
    named = {tables.parts.server(address) for address in card.addresses}
    rows = np.array([server in named for server in servers], bool)
    columns = (steps >= card.first_step) & (steps <= card.last_step)
    best, most = "step", 1.0
    if not rows.any() or rows.all() or not columns.any():
        return best
    for name in ("work", "transfers"):
        inside = delays[name][:, columns]
        own, others = (float(np.nanmean(inside[part])) for part in (rows, ~rows))
        contrast = own / max(others, _VISIBLE * usual)
        if own > _VISIBLE * usual and contrast > most:
            best, most = name, contrast
    return best


def _ms(times: pd.Series, tables: Tables) -> list[float]:
    return [round(value, 3) for value in ((times - tables.origin_ns) / 1e6).tolist()]
