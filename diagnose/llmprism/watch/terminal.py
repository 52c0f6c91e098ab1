"""What a monitor prints: each event as a line of JSON on stdout, and in words on stderr."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import typer

from llmprism.watch.sources import Taken
from llmprism.watch.state import State, compact
from llmprism.watch.view import View
from prism_common.escapes import printable


class Terminal:
    """Prints events as they are written."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet

    def took(self, state: State, taken: Taken) -> None:
        """Print nothing."""

    def diagnosed(self, state: State, view: View) -> None:
        """Print nothing: events follow."""

    def followed(self, state: State, steps: pd.DataFrame) -> None:
        """Print nothing."""

    def happened(self, state: State, events: Sequence[dict[str, Any]]) -> None:
        """Print the events."""
        for event in events:
            typer.echo(compact(event))
            if not self._quiet:
                summary = printable(event["annotations"]["summary"])
                typer.echo(f"{event['event']}: {summary}", err=True)

    def failed_to_store(self, text: str) -> None:
        """Print why the state cannot be written."""
        shown = f"error: cannot write the state: {printable(text)}" if text else "state written"
        typer.echo(shown, err=True)
