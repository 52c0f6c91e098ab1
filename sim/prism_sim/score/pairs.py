"""Was the kind of each communicating pair told right?

A pair is directed (src, dst). Every pair of the truth counts; one that the diagnosis does
not have is wrong, with the inferred kind ``missing``. A pair that the diagnosis has and
the truth does not is *spurious* and counted apart, for it has no true kind to be right
about. Where NICs are shared, one couple of addresses may carry two kinds of traffic: each
kind is a pair of its own, and it is right if the diagnosis has that couple with that kind;
otherwise the most confident kind the diagnosis gives the couple is held against it.

``accuracy_bytes`` weighs each pair by its true bytes: the acknowledgement direction of a
ring is then the small thing it is.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from llmprism.kinds import UNKNOWN
from prism_sim.score.load import Case
from prism_sim.score.stats import mean, ratio

MISSING = "missing"
_COUPLE = ["src", "dst"]


def score_pairs(case: Case) -> dict[str, Any]:
    """Counts, fractions, and ``confusion`` as true kind -> inferred kind -> count."""
    true, said = case.truth["pairs"], case.diagnosis["pairs"]
    refined = _inferred(true, said, "kind")
    unrefined = _inferred(true, said, "kind_unrefined")
    right, right_unrefined = refined == true["kind"], unrefined == true["kind"]
    return {
        "total": len(true),
        "accuracy": mean(right.to_numpy()),
        "accuracy_unrefined": mean(right_unrefined.to_numpy()),
        "accuracy_bytes": _weighted(right, true["bytes"]),
        "accuracy_unrefined_bytes": _weighted(right_unrefined, true["bytes"]),
        "missing": int((refined == MISSING).sum()),
        "spurious": _spurious(true, said),
        "confusion": _confusion(true["kind"], refined),
        "confusion_unrefined": _confusion(true["kind"], unrefined),
    }


def _inferred(true: pd.DataFrame, said: pd.DataFrame, column: str) -> pd.Series:
    """The kind that the diagnosis gives each row of ``true``, in its order."""
    wanted = pd.DataFrame({name: true[name].astype(str) for name in [*_COUPLE, "kind"]})
    wanted["row"] = range(len(true))
    given = said[[*_COUPLE, "confidence"]].astype({"src": str, "dst": str})
    given["inferred"] = said[column].astype(object).where(said[column].notna(), UNKNOWN)
    both = wanted.merge(given, on=_COUPLE, how="left")
    both["right"] = both["inferred"] == both["kind"]
    both = both.sort_values(["row", "right", "confidence"], ascending=[True, False, False])
    best = both.drop_duplicates("row")["inferred"].astype(object)
    return best.where(best.notna(), MISSING).set_axis(true.index)


def _spurious(true: pd.DataFrame, said: pd.DataFrame) -> int:
    couples = said[_COUPLE].astype(str).drop_duplicates()
    known = true[_COUPLE].astype(str).drop_duplicates()
    return int((couples.merge(known, how="left", indicator=True)["_merge"] == "left_only").sum())


def _weighted(right: pd.Series, size: pd.Series) -> float | None:
    weights = pd.to_numeric(size).fillna(0)
    return ratio(float(weights[right].sum()), float(weights.sum()))


def _confusion(true: pd.Series, inferred: pd.Series) -> dict[str, dict[str, int]]:
    counts = pd.crosstab(true.astype(str), inferred.astype(str))
    return {
        str(kind): {str(name): int(n) for name, n in row.items() if n}
        for kind, row in counts.iterrows()
    }
