"""GPUs that flows cannot tell apart: those of a tensor-parallel group, which compute in lock-step.

Their traffic stays on NVLink, so a slow GPU makes all NICs of its group late alike. Frameworks give
neighbouring GPUs to a group, in the order of the ranks: the GPUs that a job has in a server (or in
an NVLink domain) are divided into groups of tp.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from llmprism.part_names import Parts, natural
from prism_common.quantities import EVEN

if TYPE_CHECKING:
    import pandas as pd

Groups = Mapping[str, tuple[str, ...]]
"""Addresses of the tensor-parallel group at each address; only groups of several."""


def tensor_groups(addresses: list[str], layouts: pd.DataFrame, parts: Parts) -> Groups:
    """The groups of the job with these ``addresses``; empty where its layout is not likely.

    ``layouts`` has the rows of the job.
    """
    if not len(layouts) or not float(layouts["confidence"].iloc[0]) >= EVEN:
        return {}
    tp = int(layouts["tp"].iloc[0])
    homes: dict[str, list[str]] = {}
    for address in sorted(addresses, key=lambda one: _place(parts.endpoints.get(one, {}))):
        homes.setdefault(_home(parts.endpoints.get(address, {}), address), []).append(address)
    found: dict[str, tuple[str, ...]] = {}
    for own in homes.values() if tp > 1 else ():
        of_gpu = [one for one in own for _ in parts.endpoints.get(one, {}).get("gpus") or (0,)]
        for first in range(0, len(of_gpu), tp) if len(of_gpu) % tp == 0 else ():
            group = tuple(dict.fromkeys(of_gpu[first : first + tp]))
            found |= {one: (*found.get(one, ()), *group) for one in group}
    return {one: tuple(dict.fromkeys(group)) for one, group in found.items() if len(group) > 1}


def _home(end: Mapping[str, Any], address: str) -> str:
    return str(end.get("domain") or end.get("server") or address)


def _place(end: Mapping[str, Any]) -> tuple[tuple[int, str], int, int]:
    """A key in the order of servers and NICs."""
    return natural(str(end.get("server"))), int(end.get("nic") or 0), int(end.get("port") or 0)
