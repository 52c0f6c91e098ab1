"""Names in other trainers and launchers, and the corresponding keys of a scenario.

A name is either another word for the same quantity, or a different quantity, from which ours
follows: then the hint says how. Only the former may be renamed.

Sources: arguments of Megatron-LM (``megatron/training/arguments.py``), the configuration of
DeepSpeed (``deepspeed.ai/docs/config-json``), of torchtitan (``torchtitan/config/job_config.py``)
and of PyTorch's DistributedDataParallel, options of torchrun (``torch.distributed.run``), and
model configurations of Hugging Face transformers.
"""

from __future__ import annotations

import operator
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

_DATA = tomllib.loads(Path(__file__).with_name("foreign.toml").read_text(encoding="utf-8"))
_FORMULAS: dict[str, list[str]] = _DATA["formulas"]
_SENTENCES: dict[str, list[str]] = _DATA["sentences"]

NAMES: dict[str, tuple[str, str]] = {
    foreign: (own, whose)
    for whose, names in _DATA["names"].items()
    for own, foreigners in names.items()
    for foreign in foreigners.split()
} | {name: (own, whose) for name, (own, whose, _) in (_FORMULAS | _SENTENCES).items()}
"""Our key and its owner, by the name in other programs."""

_PRODUCT = {"world_size"}

Numbers = Callable[[str], float | None]
"""Returns the number of a key of the same job or model, given or default; None if unknown."""


def own_name(key: str) -> tuple[str, str] | None:
    """Our key for ``key`` of another program, and its owner; None if unknown.

    >>> own_name("tensor-model-parallel-size")
    ('tp', 'of a job')
    """
    return NAMES.get(_plain(key))


def hint(key: str, value: Any = None, numbers: Numbers = lambda _key: None) -> str:
    """A hint for a key of another program; empty if the key is unknown.

    >>> hint("nnodes")
    'nnodes is called servers here, a key of cluster'
    >>> hint("bucket-cap-mb", 25, {"gradient_bytes": 4}.get)
    'bucket_params = 25 * 1048576 / gradient_bytes = 25 * 1048576 / 4 = 6553600, a key of a job'
    """
    plain = _plain(key)
    if plain in _PRODUCT:
        return f"{key} follows from dp x pp x tp x cp of the jobs; leave it out"
    if plain in _FORMULAS:
        own, whose, formula = _FORMULAS[plain]
        shown = value if isinstance(value, (int, float)) else key
        return f"{own} = {_computed(formula.format(shown), numbers)}, a key {whose}"
    if plain in _SENTENCES:
        return f"{key}: {_SENTENCES[plain][2]}"
    named = own_name(key)
    return f"{key} is called {named[0]} here, a key {named[1]}" if named else ""


_OPERATORS = {"*": operator.mul, "/": operator.truediv}


def _computed(formula: str, numbers: Numbers) -> str:
    """A formula, with its numbers and its result if they are known.

    >>> _computed("layers / pp / 5", {"layers": 40, "pp": 4}.get)
    'layers / pp / 5 = 40 / 4 / 5 = 2'
    """
    first, *rest = formula.split()
    signs, terms = rest[::2], [_number(word, numbers) for word in (first, *rest[1::2])]
    known = [term for term in terms if term]  # neither unknown nor 0
    if len(known) < len(terms):
        return formula
    result, written = known[0], f"{known[0]:.10g}"
    for sign, term in zip(signs, known[1:], strict=True):
        result = _OPERATORS[sign](result, term)
        written += f" {sign} {term:.10g}"
    return f"{formula} = {written} = {result:.10g}"


def _number(word: str, numbers: Numbers) -> float | None:
    try:
        return float(word)
    except ValueError:
        return numbers(word)


def _plain(key: str) -> str:
    return key.lower().lstrip("-").replace("-", "_")
