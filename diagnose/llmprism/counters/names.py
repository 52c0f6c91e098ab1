"""Which name of a counter is which of our columns, and on which side of the cable it counts.

SNMP, OpenConfig and most switches name directions from the switch; hosts, DPUs and InfiniBand name
them from the NIC. Names are compared without case and separators.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from llmprism.counters.readings import NIC, SWITCH, Side, mirrored
from prism_common.errors import Problem, UserError

SWITCH_NAMES: Mapping[str, str] = {
    "in_bytes": "inbytes inoctets ifhcinoctets ifinoctets bytesin octetsin",
    "out_bytes": "outbytes outoctets ifhcoutoctets ifoutoctets bytesout octetsout",
    "in_packets": "inpackets inpkts ifhcinucastpkts inunicastpkts inucastpkts",
    "out_packets": "outpackets outpkts ifhcoutucastpkts outunicastpkts outucastpkts",
    "in_discards": "indiscards ifindiscards inpktsloss indrops",
    "out_discards": "outdiscards ifoutdiscards outpktsloss outdrops",
    "in_errors": "inerrors ifinerrors",
    "out_errors": "outerrors ifouterrors",
    "ecn_marks": "ecnmarks ecnmarkedcount ecnmarkedpackets",
    "pause_frames": "pauseframes pfcrxframes inpauseframes rxpfc pausein",
}
"""Names of counters of a switch port, by our column."""
NIC_NAMES: Mapping[str, str] = {
    "in_bytes": "receivedbytes rxbytes rcvbytes receivebytestotal nodenetworkreceivebytestotal "
    "nodeinfinibandportdatareceivedbytestotal networkreceivebytestotal portrcvdata",
    "out_bytes": "transmittedbytes txbytes xmitbytes transmitbytestotal "
    "nodenetworktransmitbytestotal nodeinfinibandportdatatransmittedbytestotal "
    "networktransmitbytestotal portxmitdata",
    "in_packets": "rxpackets portrcvpkts nodenetworkreceivepacketstotal",
    "out_packets": "txpackets portxmitpkts nodenetworktransmitpacketstotal",
    "in_discards": "rxdropped rxdiscards nodenetworkreceivedroptotal",
    "out_discards": "txdropped txdiscards portxmitdiscards nodenetworktransmitdroptotal",
    "in_errors": "rxerrors portrcverrors nodenetworkreceiveerrstotal",
    "out_errors": "txerrors nodenetworktransmiterrstotal",
    "ecn_marks": "npecnmarkedrocepackets rxecnmark",
    "pause_frames": "rxpause rxprio3pause",
}
"""The same as a NIC or a host names them."""
RATES = re.compile(r"bps|rate|speed|ratio|util|percent|persec|mbits|gbits|throughput|bandwidth")
"""Names of what an exporter computed from counters."""
WHY_NO_RATES = (
    "rates leave out what was between two readings, and hide resets and holes; export the counters"
    " themselves (ifHCInOctets and ifHCOutOctets, in-octets and out-octets)"
)
_BY_NAME = {
    **{name: (column, SWITCH) for column, names in SWITCH_NAMES.items() for name in names.split()},
    **{name: (column, NIC) for column, names in NIC_NAMES.items() for name in names.split()},
}


def plain(name: str) -> str:
    """A name without case and separators, and without the path before it.

    >>> plain("/interfaces/interface/state/counters/in-octets"), plain("ifHCInOctets")
    ('inoctets', 'ifhcinoctets')
    """
    return re.sub(r"[^a-z0-9]", "", name.lower().rsplit("/", 1)[-1].rsplit(":", 1)[-1])


def column_of(name: str, side: Side | None = None) -> str | None:
    """Our column for a counter's name, as the switch sees it; None if it is no counter we use.

    ``side`` is where the exporter is, if the name does not decide it.

    >>> column_of("ifHCInOctets"), column_of("rx_bytes"), column_of("in_bytes", "nic")
    ('in_bytes', 'out_bytes', 'out_bytes')
    """
    known = _BY_NAME.get(plain(name))
    if known is None:
        return None
    column, usual = known
    return mirrored(column) if (side or usual) == NIC else column


def is_rate(name: str) -> bool:
    """Whether a name is that of a rate."""
    return bool(RATES.search(plain(name)))


def refuse_rates(names: Iterable[str], where: str) -> None:
    """Refuse an input that has rates and no counters.

    Raises
    ------
    UserError : one of the names is that of a rate.
    """
    rates = sorted(name for name in names if is_rate(name))
    if rates:
        what = f"{', '.join(rates[:3])}: rates, and no counters of bytes"
        raise UserError(Problem(what, where, WHY_NO_RATES))
