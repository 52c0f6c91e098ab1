"""The parts of the network that a connection leads through: NICs, links, switches.

Each link and each switch is a part, in both directions together and in each direction, since a
wrong setting may slow what a switch sends upwards and nothing else. A directed part has an arrow:
``leaf1>spine0`` is one direction of a link, ``leaf1>up`` all that a switch sends upwards,
``leaf1>down`` all that it sends to its NICs, and ``10.0.0.1>out`` all that a NIC sends.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.io.spread import carrying
from llmprism.methods.prism.context import Context
from llmprism.numerics.arrays import Codes

ARROW = ">"
SLOW = "slow_switch"
UP, DOWN, OUT, IN = f"{ARROW}up", f"{ARROW}down", f"{ARROW}out", f"{ARROW}in"


def crossed(context: Context, connection: int) -> frozenset[str]:
    """Parts that a connection crosses; of the one that answers it, parts without a direction.

    One that is spread over several paths crosses what carries most of its bytes.
    """
    connections, flows, names = context.connections, context.flows, context.topology.addresses
    src, dst = names[connections.src[connection]], names[connections.dst[connection]]
    ends = {src, dst, f"{src}{OUT}", f"{dst}{IN}"}
    parts = carrying(flows, connections.by.rows(connection), parts_of)
    back = context.answers.get(connection)
    if back is not None:
        answering = carrying(flows, connections.by.rows(back), parts_of)
        parts |= {part for part in answering if ARROW not in part}
    return frozenset(ends | parts)


def parts_on(flows: FlowTable, codes: Codes) -> set[str]:
    """Parts of the paths with some codes; a code below 0 has none."""
    known = np.unique(codes).tolist()
    return {part for code in known if code >= 0 for part in parts_of(flows.paths[code])}


def parts_of(path: str) -> list[str]:
    """Switches and links of a path: a link is ``a|b`` with sorted ends, and ``a>b``.

    The last switch sends downwards, to a NIC.

    >>> parts_of("leaf1|spine0|?")
    ['leaf1', 'spine0', 'leaf1|spine0', 'leaf1>spine0', 'leaf1>up']
    >>> parts_of("leaf1")
    ['leaf1', 'leaf1>down']
    """
    hops = path.split("|")
    parts = [hop for hop in hops if hop != "?"]
    for number, pair in enumerate(pairwise(hops)):
        if "?" not in pair:
            way = UP if number < len(hops) // 2 else DOWN
            parts += ["|".join(sorted(pair)), ARROW.join(pair), f"{pair[0]}{way}"]
    return parts if hops[-1] == "?" else [*parts, f"{hops[-1]}{DOWN}"]


def culprit_of(context: Context, part: str) -> tuple[str, str, str]:
    """Kind, name and cause of a part that is slow."""
    name = part.split(ARROW)[0] if part.endswith((OUT, IN)) else part
    if name in context.topology.codes:
        return "address", name, "slow_nic"
    if part.endswith((UP, DOWN)):
        name = part.split(ARROW)[0]
        return "switch", name, "misconfigured_switch" if name in _both_ways(context) else SLOW
    if ARROW in part:
        return "link", "|".join(sorted(part.split(ARROW))), "slow_link"
    return ("link", part, "slow_link") if "|" in part else ("switch", part, SLOW)


def _both_ways(context: Context) -> frozenset[str]:
    """Switches of :func:`both_ways`, worked out once."""
    if _both_ways not in context.measured:
        context.measured[_both_ways] = both_ways(context.flows.paths)
    found: frozenset[str] = context.measured[_both_ways]
    return found


def both_ways(paths: Iterable[str]) -> frozenset[str]:
    """Switches that send upwards and downwards: one that is slow one way only is set up wrongly.

    All that others send goes one way, as spines send downwards only. There it shows nothing.

    >>> two_tiers = ["leaf0|spine0|leaf1", "leaf1|spine0|leaf0"]
    >>> sorted(both_ways(two_tiers))
    ['leaf0', 'leaf1']
    >>> sorted(both_ways([*two_tiers, "leaf0|spine0|core0|spine1|leaf2"]))
    ['leaf0', 'leaf1', 'spine0']
    """
    ways = {part for path in paths for part in parts_of(path)}
    up = {part.removesuffix(UP) for part in ways if part.endswith(UP)}
    return frozenset(name for name in up if name + DOWN in ways)
