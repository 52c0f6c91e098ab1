"""Token buckets in front of links.

A bucket fills with the capacity that its link does not use, up to its size. A new flow passes as
many bytes at once as every bucket on its path holds; the rest has the rate that the link's flows
share. A link that is busy has an empty bucket, so its mean rate is never above its capacity.

Reference: ``tc-tbf(8)``, and the token bucket of RFC 2697.
"""

from __future__ import annotations

from prism_common.compiled import compiled_part
from prism_sim.cluster.maxmin import uses_of
from prism_sim.cluster.state import Net


@compiled_part
def take_tokens(net: Net, e: int, now: int) -> float:
    """Take from the buckets on the path of the new entity ``e``, and return what passes at once."""
    passed = float(net.entity[e]["size_bytes"])
    limited = False
    for u in uses_of(net, e):
        at = net.use[u]["link"]
        if net.link[at]["bucket_bytes"] > 0:
            limited = True
            spared = _spared(net, at, now)
            held = net.link[at]["tokens"] + spared - net.link[at]["tokens_spared"]
            net.link[at]["tokens"] = min(net.link[at]["bucket_bytes"], held)
            net.link[at]["tokens_spared"] = spared
            passed = min(passed, net.link[at]["tokens"])
    if not limited:
        return 0.0
    for u in uses_of(net, e):
        at = net.use[u]["link"]
        if net.link[at]["bucket_bytes"] > 0:
            net.link[at]["tokens"] -= passed
    return passed


@compiled_part
def _spared(net: Net, at: int, now: int) -> float:
    """Free bytes of link ``at`` from the begin until ``now``."""
    left = max(net.link[at]["left"], 0.0)
    return float(net.link[at]["spared"] + left * (now - net.link[at]["noted_ns"]))
