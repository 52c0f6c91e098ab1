"""What listens to a monitor: alerts, metrics, the live page, the history and the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from llmprism.watch.sources import Taken
from llmprism.watch.state import State

if TYPE_CHECKING:
    from llmprism.watch.view import View


class Listener:
    """Something that shows or sends what a monitor finds; by itself, it does nothing."""

    @property
    def problem(self) -> str:
        """Why it cannot send what it should; empty if it can."""
        return ""

    def took(self, state: State, taken: Taken) -> None:
        """Records came, or did not."""

    def diagnosed(self, state: State, view: View) -> None:
        """A window was diagnosed; called before the commit, and again if that fails."""

    def followed(self, state: State, steps: pd.DataFrame) -> None:
        """Steps were completed without a new diagnosis; called before the commit as well."""

    def happened(self, state: State, events: Sequence[dict[str, Any]]) -> None:
        """These events were written; called in every round, also without any."""

    def failed_to_store(self, text: str) -> None:
        """The disk did not take the state; empty if it does again."""
