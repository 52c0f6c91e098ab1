"""Progress of long work: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prism_common.escapes import printable

Progress = Callable[[float, str], None]
"""Called with the fraction done, in [0, 1], and what is being done."""


def silent(_fraction: float, _doing: str) -> None:
    """Leave progress unreported."""


@contextmanager
def reporting(quiet: bool) -> Iterator[Progress]:
    """Yield where to report progress: a bar on a terminal, nothing elsewhere."""
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield silent
        return
    with Bar(console=console, transient=True) as bar:
        task = bar.add_task("starting", total=1.0)

        def report(fraction: float, doing: str) -> None:
            bar.update(task, completed=fraction, description=printable(doing))

        yield report
