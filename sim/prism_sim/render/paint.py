"""The style of figures: one palette, one set of rules, and the export to files.

Colours can be distinguished by readers with any colour vision (after Okabe and Ito, and Tol's
muted scheme for jobs). Computation is grey, communication has colour, reconstructions are
green, windows of faults are yellow bands, and findings are purple. Text, grid and background have
colours of their own, so that a page can replace them for a light or dark theme.

The same figure always gives the same bytes: it has no date and no random ids, and its layout is
rounded, since the last bits of the layout solver vary.
"""

from __future__ import annotations

import io
import textwrap
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from prism_common import kinds
from prism_common.files import replacing
from prism_common.quantities import CLOCK_FROM_NS, clock_time

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.transforms import Transform

T = TypeVar("T")

_EMPTY = "empty: "

INK, MUTED, GRID, PAPER = "#1f2328", "#656d76", "#d8dee4", "#ffffff"
SWAPPED = {INK: "var(--ink)", MUTED: "var(--muted)", GRID: "var(--grid)", PAPER: "var(--paper)"}
"""Colours that a page replaces by those of its theme."""

REBUILT, WRONG, FAULT, FINDING = "#009e73", "#c1440e", "#e6b800", "#aa3377"

KINDS = {
    kinds.DP: "#d55e00",
    kinds.PP: "#0072b2",
    kinds.EP: "#cc79a7",
    kinds.CP: "#56b4e9",
    kinds.TP: "#8c6d46",
    kinds.OTHER: "#b8a13a",
    kinds.UNKNOWN: "#a0a7b0",
    "missing": "#6e7781",
}
"""Colour of each kind of pair, and of its traffic."""

WORK = {
    "fwd": "#d7c4e6",
    "bwd": "#9a78bd",
    "opt": "#4f3570",
    kinds.COMPUTE: "#a3adb8",
    kinds.DP: KINDS[kinds.DP],
    kinds.PP: KINDS[kinds.PP],
}
"""Colour of each kind of work in a rank's row."""

_JOBS = (
    *("#332288", "#44aa99", "#ddcc77", "#cc6677", "#88ccee", "#117733"),
    *("#aa4499", "#ee8866", "#999933", "#882255", "#6699cc", "#bbcc33"),
)

_RULES = tomllib.loads(Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))
RULES: Any = {
    **_RULES["plain"],
    **{rule: globals()[colour] for rule, colour in _RULES["colours"].items()},
    "axes.prop_cycle": f"cycler('color', {list(_JOBS)})",
}


def styled(draw: Callable[[T], Figure]) -> Callable[[T], Figure]:
    """Apply the style to ``draw``, and compute the layout of its figure once."""

    @wraps(draw)
    def drawn(shown: T) -> Figure:
        with ruled():
            made = draw(shown)
            _place_axes(made)
            for axes in made.axes:
                if axes.get_axes_locator() is None:
                    borders = axes.get_position(original=True).bounds
                    left, bottom, width, height = (round(border, 5) for border in borders)
                    axes.set_position((left, bottom, width, height))
            return made

    return drawn


@contextmanager
def ruled() -> Iterator[None]:
    """Draw or save with the style; a letter missing in the font becomes a box, without warning."""
    import matplotlib as mpl

    with mpl.rc_context(RULES), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def _place_axes(made: Figure) -> None:
    """Compute the layout once, without drawing; the axes then stay where they are."""
    engine = made.get_layout_engine()
    if engine is not None and made.axes:
        engine.execute(made)
    made.set_layout_engine(None)  # not "none", with which each export draws twice


def figure(width: float, height: float) -> Figure:
    """An empty figure [inches] without a window, with automatic layout."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height))
    made.set_layout_engine("constrained", w_pad=0.08, h_pad=0.08)
    return made


def sentence(words: str) -> Figure:
    """A figure with only a sentence: the reason why it is empty."""
    made = figure(9, 1.6)
    made.text(0.5, 0.5, textwrap.fill(words, 80), ha="center", va="center", fontsize=11,
              color=MUTED)  # fmt: skip
    made.set_gid(_EMPTY + words)
    return made


def why_empty(made: Figure) -> str | None:
    """The reason why the figure is empty; None if it is not."""
    gid = made.get_gid() or ""
    return gid.removeprefix(_EMPTY) if gid.startswith(_EMPTY) else None


def title(made: Figure, finding: str) -> None:
    """Give a figure a title that states its finding."""
    made.suptitle(textwrap.fill(finding, int(8.5 * made.get_figwidth())), x=0.01, ha="left")


def job_heading(job: str) -> str:
    """The name of a job as a heading.

    >>> job_heading("alpha"), job_heading("job-0")
    ('Job alpha', 'Job-0')
    """
    return f"{job[:1].upper()}{job[1:]}" if job.startswith("job") else f"Job {job}"


def job_colours(jobs: Iterable[str]) -> dict[str, str]:
    """A colour for each job; every further dozen is paler."""
    from matplotlib.colors import to_hex, to_rgb

    colours = {}
    for place, job in enumerate(jobs):
        lap, name = divmod(place, len(_JOBS))
        faded = 1 - 0.6**lap
        red, green, blue = (part + (1 - part) * faded for part in to_rgb(_JOBS[name]))
        colours[job] = to_hex((red, green, blue))
    return colours


def swatch(colour: str, label: str, **how: Any) -> Patch:
    """An entry of a legend."""
    from matplotlib.patches import Patch

    return Patch(**({"facecolor": colour, "edgecolor": "none", "label": label} | how))


def sign(colour: str, label: str, shape: str) -> Line2D:
    """An entry of a legend for dots of one shape."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, label=label, marker=shape, linestyle="none")


def quiet(axes: Axes) -> None:
    """Remove axes, ticks and grid."""
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def clock_axis(axes: Axes, origin_ns: int) -> None:
    """Label an x axis in seconds since ``origin_ns`` with the times of the collector's clock.

    The axis has its final limits.
    """
    from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator

    is_utc = abs(origin_ns) >= CLOCK_FROM_NS
    day_ns = 86_400 * 10**9
    since_midnight_s = origin_ns % day_ns / 1e9 if is_utc else origin_ns / 1e9
    first, last = (limit + since_midnight_s for limit in axes.get_xlim())
    marks = [at for at in MaxNLocator(7).tick_values(first, last) if first <= at <= last]
    is_whole = all(float(at).is_integer() for at in marks)
    midnight_ns = origin_ns - round(since_midnight_s * 1e9)
    names = [
        clock_time(midnight_ns + round(at * 1e9)).removesuffix(" UTC") if is_utc else f"{at:g}"
        for at in marks
    ]
    if is_utc and is_whole:
        names = [name.partition(".")[0] for name in names]
    axes.xaxis.set_major_locator(FixedLocator([at - since_midnight_s for at in marks]))
    axes.xaxis.set_major_formatter(FixedFormatter(names))
    axes.set_xlabel("time (UTC)" if is_utc else "time [s]")


def fault_windows(
    axes: Axes, faults: pd.DataFrame, origin: int, ranks: pd.DataFrame | None = None
) -> float:
    """Shade the window of each fault; also name the faults if the affected ``ranks`` are given.

    The x axis is in seconds since ``origin`` [ns] and has its final limits. Returns the
    fraction of the height that the names leave free.
    """
    from prism_sim.score.culprits import culprit_of

    first, last = axes.get_xlim()
    inches = axes.get_window_extent().transformed(_inches(axes)).height
    height = 0.17 / inches  # of a line of text
    taken: list[float] = []  # where each line of names ends
    for _, fault in faults.sort_values("start_ns").iterrows():
        start = first if fault.isna()["start_ns"] else (fault["start_ns"] - origin) / 1e9
        end = last if fault.isna()["end_ns"] else (fault["end_ns"] - origin) / 1e9
        axes.axvspan(start, end, color=FAULT, alpha=0.22, linewidth=0, zorder=0)
        if ranks is None:
            continue
        culprit = culprit_of(fault, ranks)
        words = f" {str(fault['kind']).replace('_', ' ')} {culprit[1] if culprit else ''}"
        reach = max(start, first) + (last - first) * 0.0075 * len(words)
        line = next((n for n, end in enumerate(taken) if end <= start), len(taken))
        taken[line : line + 1] = [reach]
        how: Any = {"transform": axes.get_xaxis_transform(), "va": "top", "clip_on": True}
        axes.text(max(start, first), 0.97 - height * line, words, fontsize=8, **how)
    return 0.95 - height * len(taken)


def _inches(axes: Axes) -> Transform:
    from matplotlib.transforms import Affine2D

    whole = axes.get_figure(root=True)
    return whole.dpi_scale_trans.inverted() if whole else Affine2D()


def svg(made: Figure) -> str:
    """The figure as an ``<svg>`` element whose ink and paper follow the page's theme."""
    text = io.StringIO()
    with ruled():
        made.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    markup = text.getvalue()
    markup = markup[markup.index("<svg") :]
    for colour, variable in SWAPPED.items():
        markup = markup.replace(colour, variable)
    return markup


def write_png(made: Figure, path: Path) -> None:
    """Save the figure as PNG at 144 dots an inch."""
    with replacing(path) as partial:
        partial.write_bytes(png(made))


def png(made: Figure) -> bytes:
    """The figure as PNG at 144 dots an inch."""
    data = io.BytesIO()
    with ruled():
        made.savefig(data, format="png", dpi=144, metadata={"Software": None})
    return data.getvalue()


def pdf(figures: Iterable[Figure]) -> bytes:
    """Figures as the pages of one PDF, as a publication takes them."""
    from matplotlib.backends.backend_pdf import PdfPages

    data = io.BytesIO()
    with ruled(), PdfPages(data, metadata={"CreationDate": None}) as pages:
        for made in figures:
            pages.savefig(made)
    return data.getvalue()
