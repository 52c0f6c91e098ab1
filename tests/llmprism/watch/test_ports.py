"""A monitor of servers whose NICs have two ports, each with an address."""

from __future__ import annotations

import copy
from typing import Any

from watching import Watched, pieces, put


def dual(topology: dict[str, Any]) -> dict[str, Any]:
    """The topology with a second port for every NIC, on the same leaf."""
    content = copy.deepcopy(topology)
    ends = content["endpoints"]
    for number, end in enumerate(ends):
        end |= {"port": 0, "nic": end.get("nic") or number}
    content["endpoints"] = [
        one | {"address": one["address"] + suffix, "port": port}
        for one in ends
        for port, suffix in enumerate(("", ".p1"))
    ]
    return content


def test_records_of_all_ports_are_those_of_the_nic(world: Any, watched: Watched) -> None:
    watched.begin(dual(world.topology))
    flows = world.flows.copy()
    second = flows.index % 2 == 1
    for side in ("src", "dst"):
        name = flows[side].astype(str)
        flows[side] = name.where(~second, name + ".p1")
    for number, records in enumerate(pieces(flows, 5)):
        put(records, watched.incoming, f"{number}.parquet")
        state = watched.round()
    assert watched.happened() == [("opened", "SlowGpu"), ("resolved", "SlowGpu")]
    assert state.fates["kept"] == len(flows)
    (job,) = state.jobs
    assert not any(address.endswith(".p1") for address in job.addresses)
