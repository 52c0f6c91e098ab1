"""The fraction of line rate that a collective reaches, by its size and number of servers.

SimAI publishes measured ratios (``nic_ratio.csv``): at 16 MiB 0.32 over 2 servers, 0.13 over 8,
0.044 over 32; at 1 GiB 0.92, 0.90 and 0.74. They follow

    1 / ratio = 1.02 + A (servers / 2)^0.848 / size,    A = 33.1 MiB

within 4 %: an overhead that is largest for small buffers and many servers. All other values are
interpolated or extrapolated.
"""

from __future__ import annotations

from collections.abc import Callable

MIB = 2**20


def measured(size_bytes: int, servers: int) -> float:
    """The fitted formula.

    >>> round(measured(16 * MIB, 8), 2), round(measured(1024 * MIB, 32), 2)
    (0.13, 0.74)
    """
    overhead_bytes = 33.1 * MIB * (max(servers, 2) / 2) ** 0.848
    return float(1 / (1.02 + overhead_bytes / max(size_bytes, 1)))


EFFICIENCIES: dict[str, Callable[[int, int], float]] = {
    "ideal": lambda *_: 1.0,
    "measured": measured,
}
"""Functions from (buffer [bytes], servers) to the fraction of line rate, by name in a scenario."""
