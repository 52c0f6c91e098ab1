"""The steps that were found beside the true ones."""

from __future__ import annotations

from typing import Any

import pandas as pd


def steps_beside_truth(run: Any) -> pd.DataFrame:
    """True steps with their ranks; columns of those found at the same place end in ``_found``.

    All of them have to be found.
    """
    true = run.truth("steps").merge(run.truth("ranks"), on=["job", "rank"])
    both = true.merge(run.diagnosis.steps, on=["address", "step"], suffixes=("", "_found"))
    assert len(both) == len(true)
    return both
