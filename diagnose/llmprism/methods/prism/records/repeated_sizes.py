"""Sizes that repeat: whether records are messages, or pieces of them.

A program sends messages of the same few sizes in every step. Where silences cut transfers at any
place, as TCP does on a busy link, sizes of records hardly repeat.
"""

from __future__ import annotations

import numpy as np

from llmprism.numerics.arrays import Ints

EXACT = 0.001  # of a message: what headers add to some
REPEATED, OFTEN = 3, 0.02  # records, and share of all, from which a size repeats
MOST = 0.95  # of messages or bytes: retransmissions change the size of few


def are_messages(size: Ints) -> bool:
    """Whether nearly all bytes are in records of sizes that often repeat.

    Silences cut real messages at any place, and join some. Then records are no messages.
    """
    order = np.sort(size)
    opens = np.diff(order, prepend=0) > EXACT * order
    held = np.bincount(np.cumsum(opens))[np.cumsum(opens)]
    often = held >= max(REPEATED, OFTEN * size.size)
    return bool(order[often].sum() >= MOST * order.sum())
