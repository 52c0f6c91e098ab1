"""Columns of an Arrow table as arrays: names become codes, a null becomes -1."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from llmprism.io.screening import NULL, UNKNOWN
from llmprism.io.topology import Topology
from llmprism.numerics.arrays import Array, Codes


def numbers(column: pa.ChunkedArray) -> Array:
    """Return integers, nulls as -1 (screening decides whether a null is an error)."""
    values: Array = _without_nulls(column).to_numpy()
    return values


def _without_nulls(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """The same column, not a copy, if it has no nulls."""
    return pc.fill_null(column, -1) if column.null_count else column


def _coded(column: pa.ChunkedArray) -> tuple[Codes, list[str | None]]:
    """Return one code per row (-1 for null) and the text of each code."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    column = column.unify_dictionaries()
    if column.num_chunks == 0:
        return np.empty(0, dtype=np.int32), []
    codes = [_without_nulls(chunk.indices.cast(pa.int32())) for chunk in column.chunks]
    texts: list[str | None] = column.chunk(0).dictionary.to_pylist()
    return np.concatenate([code.to_numpy() for code in codes]), texts


def endpoint_codes(column: pa.ChunkedArray, topology: Topology, unknown: Counter[str]) -> Codes:
    """Return endpoint codes: UNKNOWN for one that is not in the topology, NULL for none.

    The records of each unknown address are added to ``unknown``.
    """
    codes, texts = _coded(column)
    known = topology.codes
    meaning = [NULL if text is None else known.get(text, UNKNOWN) for text in texts]
    if UNKNOWN in meaning:
        records = np.bincount(codes[codes >= 0], minlength=len(texts)).tolist()
        for text, code, count in zip(texts, meaning, records, strict=True):
            if text is not None and code == UNKNOWN and count:
                unknown[text] += count
    return np.array([*meaning, NULL], dtype=np.int32)[codes]  # the last one is for code -1


def narrowed(values: Array) -> Array:
    """Return the same numbers in as few bytes as hold them."""
    if values.size == 0:
        return values
    types = [np.min_scalar_type(end) for end in (int(values.min()), int(values.max()))]
    return values.astype(np.promote_types(*types))


def path_codes(column: pa.ChunkedArray | None, rows: int) -> tuple[Codes, list[str]]:
    """Return a code for each of the ``rows`` (-1 for an unknown path) and the text of each code."""
    if column is None:
        return np.full(rows, -1, dtype=np.int32), []
    codes, texts = _coded(column)
    paths = sorted({text for text in texts if text is not None})
    number = {text: i for i, text in enumerate(paths)}
    meaning = [-1 if text is None else number[text] for text in texts]
    return np.array([*meaning, -1], dtype=np.int32)[codes], paths
