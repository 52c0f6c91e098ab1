"""Peers: what the culprit of a fault can be compared with."""

from __future__ import annotations

from itertools import product

import pandas as pd
import pytest

from evaluation.exam.truth import has_peers

SPINES = ("spine0", "spine1", "spine2")


def job(dp: int, pp: int, tp: int) -> tuple[pd.DataFrame, dict[str, list[dict[str, str]]]]:
    """Ranks with a server and a leaf for each replica of a stage, and their topology."""
    ranks = pd.DataFrame(
        {"job": "job", "dp": d, "pp": p, "tp": t, "ep": 0, "cp": 0,
         "server": f"s{d}{p}", "address": f"a{d}{p}{t}"}
        for d, p, t in product(range(dp), range(pp), range(tp))
    )  # fmt: skip
    leaves = "leaf" + ranks["server"].str[1:]
    ends = [
        {"address": a, "switch": leaf} for a, leaf in zip(ranks["address"], leaves, strict=True)
    ]
    tiers = dict.fromkeys(leaves, "leaf") | dict.fromkeys(SPINES, "spine")
    return ranks, {
        "endpoints": ends,
        "switches": [{"name": name, "tier": tier} for name, tier in tiers.items()],
    }


@pytest.mark.parametrize(
    ("sizes", "kind", "name", "expected"),
    [
        ((3, 2, 1), "address", "a000", True),
        ((2, 4, 1), "address", "a000", False),  # stages are no peers
        ((2, 1, 4), "address", "a000", False),  # ranks in lockstep are no peers
        ((3, 1, 2), "server", "s00", True),
        ((2, 1, 2), "server", "s00", False),
        ((3, 1, 1), "link", "a000|leaf00", True),
        ((2, 1, 1), "link", "a000|leaf00", False),
        ((1, 2, 1), "link", "leaf00|spine0", True),
        ((1, 2, 1), "switch", "spine2", True),
        ((2, 1, 1), "switch", "leaf00", False),
        ((3, 1, 1), "switch", "leaf00", True),
        ((8, 1, 1), "job", "job", False),
    ],
)
def test_peers_do_the_same_for_the_same_job(
    sizes: tuple[int, int, int], kind: str, name: str, expected: bool
) -> None:
    ranks, topology = job(*sizes)
    fault = pd.Series({"culprit_kind": kind, "culprit": name})
    assert has_peers(fault, "job", ranks, topology) is expected
