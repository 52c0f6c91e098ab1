"""What a monitor prints: each event as a line of JSON on stdout, and in words on stderr."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import typer

from llmprism.watch.listening import Listener
from llmprism.watch.state import State
from prism_common.service.durable import compact
from prism_common.service.logging import LOGGER

_LEVELS = {"critical": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO}


class Terminal(Listener):
    """Prints events as they are written."""

    def happened(self, state: State, events: Sequence[dict[str, Any]]) -> None:
        """Print the events; what is over has the level of information."""
        for event in events:
            typer.echo(compact(event))
            labels = event["labels"]
            level = _LEVELS.get(labels.get("severity", ""), logging.WARNING)
            is_over = event["event"] == "resolved"
            words = (event["event"], labels["alertname"], event["annotations"]["summary"])
            LOGGER.log(logging.INFO if is_over else level, "%s: %s: %s", *words)

    def failed_to_store(self, text: str) -> None:
        """Print why the state cannot be written."""
        if text:
            LOGGER.error("StateNotWritten: cannot write the state: %s", text)
        else:
            LOGGER.info("the state is written again")
