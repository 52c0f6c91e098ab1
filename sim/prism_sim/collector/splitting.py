"""Records of messages that are split over several paths.

A switch that keeps a record for each output interface reports one record for each path, with the
bytes that took it. One that keeps a record for each 5-tuple reports the interface of one packet, so
one path of several, with all bytes.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from prism_sim.cluster.routes import Router
from prism_sim.collector.keyed import hashed
from prism_sim.collector.rows import AMOUNTS, NO_PATH, Rows


class Splitting:
    """The paths over which the messages of rows are split.

    Parameters
    ----------
    router : knows the parts of each path.
    """

    def __init__(self, router: Router) -> None:
        @cache
        def parts(path: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
            """The paths of one that is split, and the sum of shares up to each."""
            each = router.names.parts_of(path) if path != NO_PATH else [(NO_PATH, 1.0)]
            paths, shares = zip(*each, strict=True)
            until = np.cumsum(shares) / sum(shares)
            until[-1] = 1.0
            return np.array(paths, np.int32), until

        self._parts = parts

    def every(self, rows: Rows) -> Rows:
        """A row for each path, with its share of the amounts; rows without bytes are left out."""
        parts = [self._parts(path) for path in rows["path"].tolist()]
        if not parts:
            return rows
        counts = np.array([len(paths) for paths, _ in parts])
        split = np.repeat(rows, counts)
        split["path"] = np.concatenate([paths for paths, _ in parts])
        number = np.concatenate([np.arange(count) for count in counts.tolist()])
        until = np.concatenate([until for _, until in parts])
        before = np.where(number > 0, np.roll(until, 1), 0.0)
        for name in AMOUNTS:
            whole = split[name].copy()
            split[name] = np.floor(whole * until).astype(np.int64)
            split[name] -= np.floor(whole * before).astype(np.int64)
        later = number > 0
        split["id"][later] = hashed(split["id"][later], number[later])
        kept: Rows = split[(split["bytes"] > 0) | (np.repeat(counts, counts) == 1)]
        return kept

    def one(self, rows: Rows, drawn: NDArray[np.float64]) -> Rows:
        """The rows with one of their paths, by the share of each."""
        for path in np.unique(rows["path"]).tolist():
            paths, until = self._parts(path)
            if len(paths) > 1:
                own = np.flatnonzero(rows["path"] == path)
                rows["path"][own] = paths[np.searchsorted(until, drawn[own])]
        return rows
