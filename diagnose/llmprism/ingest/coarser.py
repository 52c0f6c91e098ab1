"""Records as they would be with a longer idle gap.

Records that ended by silence alone are nested: those of a longer idle gap are unions of those of
a shorter one. So one table of the shortest gap gives the tables of all longer gaps.
"""

from __future__ import annotations

import pandas as pd

TUPLE = ["src", "dst", "src_port", "dst_port", "protocol"]
SUMMED = ["bytes", "payload", "packets"]


def coarser(flows: pd.DataFrame, gap_ns: float) -> pd.DataFrame:
    """``flows`` with a longer idle gap: records end at silences of more than ``gap_ns``.

    Only silence may have ended the given records, with an idle gap of at most ``gap_ns``.
    """
    ordered = flows.sort_values([*TUPLE, "start_ns"], kind="stable").reset_index(drop=True)
    keys = ordered[TUPLE].fillna({"src_port": -1, "dst_port": -1})
    same = (keys == keys.shift()).all(axis=1)
    last_ns = ordered["end_ns"].groupby([keys[name] for name in TUPLE]).cummax().shift()
    record = (~same | (ordered["start_ns"] - last_ns > gap_ns)).cumsum().rename("record")
    rest = [name for name in ordered if name not in (*SUMMED, "start_ns", "end_ns")]
    merge = dict.fromkeys(rest, "first") | dict.fromkeys(SUMMED, "sum")
    merged = ordered.groupby(record).agg(merge | {"start_ns": "min", "end_ns": "max"})
    return merged[list(flows.columns)].reset_index(drop=True)
