"""Random clusters with fabrics of two and three tiers, for properties that hold in all of them."""

from __future__ import annotations

from hypothesis import strategies as st

from prism_sim.toolkit import Cluster


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """A small cluster whose hardware the checks accept."""
    nics, share = draw(st.sampled_from([(1, 1), (1, 4), (2, 1), (4, 2)]))
    spines = draw(st.integers(1, 3))
    fabric = {
        "kind": draw(st.sampled_from(["rail", "tor"])),
        "leaf_ports": draw(st.integers(nics, 9)),
        "spines": spines,
        "uplinks": draw(st.none() | st.integers(1, 3).map(lambda each: each * spines)),
        "uplink_gbps": draw(st.none() | st.sampled_from([100, 400, 800])),
        "pod_leaves": draw(st.none() | st.integers(1, 4)),
        "cores": draw(st.integers(1, 4)),
        "core_uplinks": draw(st.none() | st.integers(1, 6)),
    }
    hardware = {"servers": draw(st.integers(2, 17)), "nics_per_server": nics}
    return Cluster.model_validate(hardware | {"gpus_per_server": nics * share, "fabric": fabric})
