"""Traps 4, 5 and 8: types of pairs."""

from __future__ import annotations

import pandas as pd

from prism_sim.toolkit import Run
from reproduction.base import Result
from reproduction.traps.base import Figures


def _typed(score: Result, confusion: str, true: str, inferred: str) -> int:
    count: int = score["pairs"][confusion].get(true, {}).get(inferred, 0)
    return count


def bridge(run: Run, score: Result) -> Figures:
    """PP pairs with type DP before refinement and after it, and their predicted number."""
    before = _typed(score, "confusion_unrefined", "pp", "dp")
    after = _typed(score, "confusion", "pp", "dp")
    predicted = _joined(run)
    return {
        "before": before,
        "after": after,
        "predicted": predicted,
        "accuracy_before": score["pairs"]["accuracy_unrefined"],
        "accuracy_after": score["pairs"]["accuracy"],
        "fails": before > 0 and after == predicted and after > before,
    }


def _joined(run: Run) -> int:
    """PP pairs between true DP groups that wrong types join, directly or through others."""
    true = run.truth("pairs")
    inferred = run.diagnosis("pairs").astype({"src": str, "dst": str})
    both = true.merge(inferred[["src", "dst", "kind_unrefined"]], on=["src", "dst"], how="left")
    group: dict[str, str] = {}

    def top(name: str) -> str:
        while group.setdefault(name, name) != name:
            name = group[name]
        return name

    pp = both["kind"] == "pp"
    joined = both[~pp | (pp & (both["kind_unrefined"] == "dp"))]
    for src, dst in zip(joined["src"], joined["dst"], strict=True):
        group[top(src)] = top(dst)
    ends = zip(both.loc[pp, "src"], both.loc[pp, "dst"], strict=True)
    return sum(top(src) == top(dst) for src, dst in ends)


def one_size(run: Run, score: Result) -> Figures:
    """DP pairs with type DP, and the accuracy."""
    kinds = run.truth("pairs")["kind"]
    inferred = [_typed(score, name, "dp", "dp") for name in ("confusion_unrefined", "confusion")]
    share = float((kinds == "pp").mean())
    return {
        "dp_pairs": int((kinds == "dp").sum()),
        "right_before": inferred[0],
        "right_after": inferred[1],
        "accuracy": score["pairs"]["accuracy"],
        "share_of_pp": share,
        "fails": inferred == [0, 0] and abs(score["pairs"]["accuracy"] - share) < 1e-9,
    }


def transport(run: Run, score: Result) -> Figures:
    """Pairs with acknowledgements only, and PP pairs with a second size."""
    flows = pd.read_parquet(run.flows, columns=["src", "dst", "bytes", "payload"])
    flows = flows.astype({"src": str, "dst": str})
    with_data = flows.loc[flows["payload"] > 0, ["src", "dst"]].drop_duplicates()
    sending = set(zip(with_data["src"], with_data["dst"], strict=True))
    one_way = sum((dst, src) not in sending for src, dst in sending)
    inferred = run.diagnosis("pairs").astype({"src": str, "dst": str})
    without_data = sum(
        pair not in sending for pair in zip(inferred["src"], inferred["dst"], strict=True)
    )
    pp = run.truth("pairs").query("kind == 'pp'")[["src", "dst"]]
    sizes = flows.merge(pp, on=["src", "dst"]).groupby(["src", "dst"])["bytes"].nunique()
    wrong = _typed(score, "confusion_unrefined", "pp", "dp")
    return {
        "one_way": one_way,
        "without_data": without_data,
        "pp_pairs": len(pp),
        "pp_as_dp": wrong,
        "sizes": int(sizes.max()),
        "fails": 0 < one_way == without_data and wrong == len(pp) and (sizes == 2).all().item(),
    }
