"""Large telemetry files, written quickly: they show whether memory grows with a file's length."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

_PACKET = np.dtype(
    [
        ("seconds", "<u4"), ("micros", "<u4"), ("captured", "<u4"), ("length", "<u4"),
        ("ethernet", "V12"), ("kind", ">u2"), ("version", "u1"), ("tos", "u1"), ("total", ">u2"),
        ("id", ">u4"), ("ttl", "u1"), ("protocol", "u1"), ("sum", ">u2"), ("src", ">u4"),
        ("dst", ">u4"), ("src_port", ">u2"), ("dst_port", ">u2"), ("tcp", "V8"), ("offset", "u1"),
        ("rest", "V7"),
    ]
)  # fmt: skip
_AT_ONCE = 100_000
_BURST = 2  # packets of a flow in a row; then other flows send
_FLOWS = 4_096

NFDUMP_HEAD = (
    "ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt,opkt,obyt,in,out,sas,das,smk,dmk,dtos,dir,"
    "nh,nhb,svln,dvln,ismc,odmc,idmc,osmc,mpls1,mpls2,mpls3,mpls4,mpls5,mpls6,mpls7,mpls8,mpls9,"
    "mpls10,cl,sl,al,ra,eng,exid,tr\n"
)
_NFDUMP_REST = (
    ",TCP,......,0,0,8,12000,0,0,1,2,0,0,24,24,0,0,10.0.0.254,0.0.0.0,0,0,00:00:00:00:00:00,"
    "00:00:00:00:00:00,00:00:00:00:00:00,00:00:00:00:00:00,0-0-0,0-0-0,0-0-0,0-0-0,0-0-0,0-0-0,"
    "0-0-0,0-0-0,0-0-0,0-0-0,    0.000,    0.000,    0.000,192.0.2.1,0/0,1,{}\n"
)


def write_pcap(path: Path, packets: int) -> int:
    """Write a capture with a packet every 20 us; return the number of flow records in it."""
    with path.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 96, 1))
        for start in range(0, packets, _AT_ONCE):
            number = np.arange(start, min(start + _AT_ONCE, packets))
            rows = np.zeros(number.size, _PACKET)
            rows["seconds"], rows["micros"] = np.divmod(1_700_000_000_000_000 + number * 20, 10**6)
            rows["captured"], rows["length"] = _PACKET.itemsize - 16, 1_514
            rows["kind"], rows["version"], rows["total"] = 0x0800, 0x45, 1_500
            rows["protocol"], rows["offset"] = 6, 0x50
            flow = number // _BURST % _FLOWS
            rows["src"], rows["dst"] = 0x0A000000 + flow % 64, 0x0A000100 + flow // 64
            rows["src_port"], rows["dst_port"] = 20_000 + flow, 29_500
            out.write(rows.tobytes())
    return packets // _BURST


def write_nfdump_csv(path: Path, records: int) -> int:
    """Write output of ``nfdump -o csv``, four records per ms; return their number."""
    with path.open("w") as out:
        out.write(NFDUMP_HEAD)
        for i in range(records):
            seconds, millis = divmod(i // 4, 1_000)
            minutes = seconds // 60
            clock = f"{12 + minutes // 60:02d}:{minutes % 60:02d}:{seconds % 60:02d}"
            time = f"2026-03-01 {clock}.{millis:03d}"
            ends = f"10.0.{i % 8}.{i % 64},10.1.{i % 8}.{i % 61},{20_000 + i % 997},29500"
            out.write(f"{time},{time},0.004,{ends}" + _NFDUMP_REST.format(time))
        out.write("Summary\nflows,bytes,packets,avg_bps,avg_pps,avg_bpp\n1,2,3,4,5,6\n")
    return records
