"""Backward passes that are split in two (ZB-H1), and what a rank does after its last message.

Split passes send their result after half of their time. The gradients of the weights follow later:
stage i delays those of i micro-batches, as far as it has that many before its last forward pass,
and computes them after its last message (Qi et al., Zero bubble pipeline parallelism, ICLR 2024).
Those of one micro-batch take as many operations as its forward pass, but for attention, which has
no weights of its own.
"""

from __future__ import annotations

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.kinds.same_exchanges import exchange_in_passes
from llmprism.methods.prism.phases.moments import MISSING
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.numerics.arrays import Floats

HALVED, WHOLE = 1.25, 1.6  # forward passes: less is half a backward pass, and more a whole one
EIGHT = 8  # ticks of the clock: ratios of shorter passes are not known to an eighth
SHORTEST = 2  # stages, of which none is a middle one


def halves_passes(phases: Phases, pipelines: Pipelines) -> bool | None:
    """Whether middle stages split their backward passes (ZB-H1); None if they do not show it.

    They then pass gradients on after about one forward pass of their own, or somewhat later if
    attention takes long. A whole backward pass takes twice as long, and so does a part of it if
    activations are computed again. Where messages take longer than passes, both look alike, so this
    only confirms what the last stage shows. Ranks that share a sequence send keys and values one
    way in a forward pass, and their gradients as well in a backward pass, split or not.
    """
    if any(one.kind == "cp" for one in phases.classes):
        return None
    sent = phases.moments["pp"].sent_ns
    tick_ns = clock_tick_ns(sent[sent != MISSING])
    if tick_ns > 1 and not pipelines.middle_ns >= EIGHT * tick_ns:
        return None
    passes = pipelines.backward_ns / pipelines.middle_ns if pipelines.middle_ns > 0 else np.nan
    return True if 0 < passes <= HALVED else False if passes >= WHOLE else None


def splits_passes(phases: Phases, pipelines: Pipelines) -> bool:
    """Whether the last stage shows split passes, and no middle stage shows whole ones."""
    split = pipelines.chunks == 1 and bool(pipelines.answers.are_split)
    return split and halves_passes(phases, pipelines) is not False


def weights_ns(phases: Phases, pipelines: Pipelines) -> Floats:
    """How long each endpoint computes gradients of weights after its last pass in sight [ns].

    Unknown, and 0, with exchanges: a forward pass then takes longer than its operations do.
    Between two stages, those of the first one are part of the passes that show how long its
    backward passes take.
    """
    stage, micro_batches = pipelines.stage, pipelines.micro_batches
    splits = micro_batches >= 1 and splits_passes(phases, pipelines)
    if not splits or exchange_in_passes(phases.classes):
        return np.zeros(stage.size)
    before = np.maximum(micro_batches - pipelines.length + stage, 0)
    delayed = 1 + np.minimum(stage, before)
    shown = (stage == 0) & (pipelines.length == SHORTEST)
    return np.where(shown, 0.0, delayed * np.nan_to_num(pipelines.forward_ns))
