"""DP-end error of a reader that knows the truth: how exact the records of a capture can be.

It knows the pairs, and when each rank was in the all-reduces of each step. As the end of these it
takes the last byte that the rank receives in records that overlap them. Two things keep it from the
true end: processes that notice the end late, as they share the cores of one machine, and records
that bridge silences.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_sim.run_folder import Run
from prism_sim.score.busy import true_work
from prism_sim.score.load import load

Records = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
LEAST_BYTES = 1000  # of a record that holds gradients: less are acknowledgements and control


def known_windows_error(run: Run) -> float | None:
    """Mean relative error of the time from DP end to DP end; None where the truth has no such end.

    ``run`` has been diagnosed, as all runs that are scored.
    """
    case = load(run)
    work = true_work(case)["dp"].groupby(["rank_row", "step"])
    windows = work.agg(start=("start_ns", "min"), end=("own_end_ns", "max")).reset_index()
    if windows.empty:
        return None
    received = _received(run.flows, case.truth["pairs"])
    address = case.truth["ranks"]["address"]
    windows["read"] = [
        _last_end(received.get(str(address[row.rank_row])), row.start, row.end)
        for row in windows.itertuples()
    ]
    periods = windows.groupby("rank_row")[["end", "read"]].diff().dropna()
    return float(((periods["read"] - periods["end"]).abs() / periods["end"]).mean())


def _received(flows: Path, pairs: pd.DataFrame) -> dict[str, Records]:
    """Starts and ends [ns] of the records of gradients that each address receives."""
    table = pd.read_parquet(flows).astype({"src": str, "dst": str})
    size = table["payload"] if "payload" in table else table["bytes"]
    dp = pairs.loc[pairs["kind"] == "dp", ["src", "dst"]].astype(str)
    own = table[size >= LEAST_BYTES].merge(dp.drop_duplicates(), on=["src", "dst"])
    return {
        str(name): (one["start_ns"].to_numpy(), one["end_ns"].to_numpy())
        for name, one in own.groupby("dst")
    }


def _last_end(records: Records | None, begin: int, end: int) -> float:
    """The last end of the records that overlap a window [ns]; NaN if there is none."""
    if records is None:
        return np.nan
    starts, ends = records
    inside = (ends >= begin) & (starts < end)
    return float(ends[inside].max()) if inside.any() else np.nan
