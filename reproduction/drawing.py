"""Parts of figures that several experiments draw: a mean over the seeds, with its range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def mean_and_range(
    axes: Axes, places: Sequence[float], values: Sequence[Sequence[float]], **style: Any
) -> None:
    """Draw a line of means, with a band from the lowest to the highest value at each place.

    ``values`` has one value per seed for each of ``places``.
    """
    import seaborn as sns

    x = [place for place, many in zip(places, values, strict=True) for _ in many]
    y = [value for many in values for value in many]
    band = {"alpha": 0.18, "linewidth": 0}
    how: dict[str, Any] = {"errorbar": ("pi", 100), "err_kws": band, "legend": False, **style}
    sns.lineplot(x=x, y=y, ax=axes, **how)
