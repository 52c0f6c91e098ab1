"""LLDP neighbours as tables of text: ``show lldp neighbors`` of EOS, IOS-XR, NX-OS and Junos.

The line above the neighbours has the names of the columns, and tells which column is which. EOS and
Junos align their columns with it, so that a name of two words stays whole. Cisco cuts long names,
or puts them on a line of their own, and has capabilities that may be missing: there, a neighbour is
the line that has a hold time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from llmprism.ingest.network.lldp import device_of, without_names
from llmprism.ingest.network.parts import Neighbour, Parts
from llmprism.ingest.network.registry import register
from llmprism.ingest.notes import Notes

_CISCO = re.compile(r"^Device ID\s+Local Intf\s+Hold-time\s+Capability\s+Port ID", re.MULTILINE)
_EOS = re.compile(r"^Port\s+Neighbor Device ID\s+Neighbor Port ID\s+TTL", re.MULTILINE)
_JUNOS = re.compile(
    r"^Local Interface\s+Parent Interface\s+Chassis Id\s+Port info\s+System Name", re.MULTILINE
)
_ROW = re.compile(
    r"(?:(?P<name>\S+)\s+)?(?P<local>[A-Za-z][\w/.-]*\d|mgmt\d*)\s+(?P<hold>\d+)\s+"
    r"(?:(?P<kinds>[A-Z](?:[, ]*[A-Z])*|N/A|-)\s+)?(?P<port>\S+)\s*"
)
_LETTERS = {"B", "R"}


def _recognises(text: str, _name: str) -> bool:
    return any(form.search(text) for form in (_CISCO, _EOS, _JUNOS))


@register("lldp_tables", _recognises)
def read(text: str, where: str, notes: Notes) -> Parts:
    """Return the neighbours of one device."""
    device = device_of(where)
    if match := _EOS.search(text):
        found = [
            Neighbour(device, row[0], row[1], row[2]) for row in _aligned(text, match) if row[2]
        ]
    elif match := _JUNOS.search(text):
        found = [
            Neighbour(device, row[0], row[4], row[3]) for row in _aligned(text, match) if row[0]
        ]
    else:
        found = list(_cisco(text, device))
    return Parts(neighbours=without_names(found, notes))


def _aligned(text: str, head: re.Match[str]) -> Iterator[list[str]]:
    """The cells of each line below the head, which are where the names of their columns are."""
    line = text[head.start() :].split("\n", 1)[0]
    starts = [one.start() for one in re.finditer(r"\S+(?: \S+)*", line)]
    for row in text[head.start() :].split("\n")[1:]:
        if not row.strip() or not row.strip("- "):
            continue
        ends = [*starts[1:], None]
        cells = [row[begin:end].strip() for begin, end in zip(starts, ends, strict=True)]
        if cells[0]:
            yield cells


def _cisco(text: str, device: str) -> Iterator[Neighbour]:
    """The rows of IOS-XR and NX-OS; a long name is on the line before the others."""
    lines = iter(text.split("\n"))
    next((line for line in lines if _CISCO.match(line)), None)
    alone = ""
    for line in lines:
        match = _ROW.fullmatch(line.strip())
        if match is None:
            words = line.split()
            alone = words[0] if len(words) == 1 else ""
            continue
        letters = set(re.findall("[A-Z]", match["kinds"] or "")) if match["kinds"] != "N/A" else ()
        forwards = bool(_LETTERS.intersection(letters)) if letters else None
        name = match["name"] or alone
        yield Neighbour(device, match["local"], name, match["port"], "", forwards)
        alone = ""
