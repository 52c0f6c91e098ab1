"""Measured durations of every pass of a job.

Measured times replace those computed from a model's sizes: one number for each step,
stage, replica, pass and micro-batch.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from prism_sim.scenario.base import Closed


def _numbers(row: Any) -> Any:
    return tuple(int(word) for word in row.split()) if isinstance(row, str) else row


LONGEST_NS = 10**15
"""Longest measured duration: over eleven days."""

Row = Annotated[
    tuple[Annotated[int, Field(ge=0, le=LONGEST_NS)], ...],
    BeforeValidator(_numbers, json_schema_input_type=str),
    PlainSerializer(lambda row: " ".join(map(str, row)), return_type=str),
]
"""Durations [ns], written as one line."""

Passes = tuple[Row, ...]
"""Of one rank and step: a row for each kind of pass and chunk (chunks fastest)."""


class Timings(Closed):
    """Measured durations of a job."""

    passes_ns: tuple[tuple[tuple[Passes, ...], ...], ...]
    """Forwards and backwards [ns], by step, stage, replica, pass and micro-batch."""
    optimizer_ns: tuple[tuple[Row, ...], ...]
    """Parameter updates [ns], by step, stage and replica."""

    @model_validator(mode="after")
    def _rectangular(self) -> Timings:
        steps = self.passes_ns
        shapes = {tuple(len(row) for row in rank) for step in steps for at in step for rank in at}
        sizes = {tuple(map(len, step)) for step in steps}
        updates = {tuple(map(len, step)) for step in self.optimizer_ns}
        even = len(shapes) == 1 and len(sizes) == 1 and sizes == updates
        lengths = {*next(iter(sizes), ())}, {*next(iter(shapes), ())}
        if not even or len(steps) != len(self.optimizer_ns) or [*map(len, lengths)] != [1, 1]:
            raise ValueError("some steps, ranks, passes or micro-batches are missing")
        return self

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """Steps, stages, replicas, kinds of passes times chunks, and micro-batches."""
        stages = self.passes_ns[0]
        rows = stages[0][0]
        return len(self.passes_ns), len(stages), len(stages[0]), len(rows), len(rows[0])
