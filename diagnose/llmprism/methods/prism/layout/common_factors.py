"""How likely it is that sizes of one model have a factor in common by chance.

Widths of models are nearly always even, often multiples of 3 or 5, and rarely of larger primes.
All sizes of a model have the factors of its width; activations show which these are. Other factors
of a size are independent: a prime p divides one in p of them.

Widths: published configurations of GPT-3, OPT, Llama, BLOOM, PaLM, Mixtral, DeepSeek-V3 and the
Megatron papers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from llmprism.numerics.arrays import Ints

IN_WIDTHS = {2: 0.95, 3: 0.35, 5: 0.15, 7: 0.08}
"""Share of widths of published models that have a prime factor. Blocks may be odd: rounded up."""
RARE = 0.03  # ... that have one of the other prime factors, each; also one that activations lack
AGAIN = 0.3  # ... that have it once more, of those that have it
INHERITED = 0.9  # probability that the width of a model has a factor that all its activations have


def powers_of(sizes: Ints, largest: int, share: float) -> dict[int, tuple[int, bool]]:
    """The power of each prime that divides a ``share`` of ``sizes``, as far as ``largest`` reaches.

    With each power comes whether a higher one would exceed ``largest``, so that nobody asked.
    """
    found: dict[int, tuple[int, bool]] = {}
    for prime in range(2, largest + 1):
        if any(prime % lower == 0 for lower in found):
            continue
        power = 0
        while prime ** (power + 1) <= largest and _divides(sizes, prime ** (power + 1), share):
            power += 1
        found[prime] = power, prime ** (power + 1) > largest
    return found


def _divides(sizes: Ints, divisor: int, share: float) -> bool:
    return bool(sizes.size) and bool((sizes % divisor == 0).mean() >= share)


def likelihood(
    passed: int, powers: Mapping[int, tuple[int, bool]], sizes: int, activations: Ints
) -> float:
    """How likely the ``powers`` of primes in ``sizes`` are if each is a multiple of ``passed``."""
    found, given = 1.0, dict(factors(passed))
    for prime, (power, is_last) in powers.items():
        own = given.get(prime, 0)
        if own > power:
            return 0.0
        more = 0.0 if is_last else _by_chance(prime, power - own + 1, sizes, activations)
        found *= _by_chance(prime, power - own, sizes, activations) - more
    return found


def _by_chance(prime: int, power: int, sizes: int, activations: Ints) -> float:
    """How likely it is that a power of ``prime`` divides as many ``sizes`` of one model."""
    if power == 0:
        return 1.0
    width = _in_width(prime, power, activations)
    return width + (1 - width) * float(prime) ** (-power * sizes)


def _in_width(prime: int, power: int, activations: Ints) -> float:
    """Probability that the width of a model is a multiple of a power of ``prime``."""
    if prime > 2 and activations.size:
        return INHERITED if (activations % prime**power == 0).all() else RARE
    return IN_WIDTHS.get(prime, RARE) * (1.0 if prime == 2 else AGAIN ** (power - 1))


def unrelated(sizes: Ints) -> int:
    """Number of sizes that are not a small multiple of others, or as many thirds of them."""
    rest = sizes.copy()
    for factor in (2, 3):
        while (rest % factor == 0).any():
            rest = np.where(rest % factor == 0, rest // factor, rest)
    return int(np.unique(rest).size)


def factors(number: int) -> Iterator[tuple[int, int]]:
    """Prime factors and their powers."""
    prime = 2
    while number > 1:
        power = 0
        while number % prime == 0:
            number //= prime
            power += 1
        if power:
            yield prime, power
        prime = prime + 1 if prime * prime <= number else max(number, prime + 1)
