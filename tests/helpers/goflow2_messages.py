"""Binary messages of goflow2, written by the encoding of protocol buffers."""

from __future__ import annotations

from ipaddress import ip_address

NUMBERS = {
    "type": 1, "sampling_rate": 3, "sequence_num": 4, "src_addr": 6, "dst_addr": 7, "bytes": 9,
    "packets": 10, "sampler_address": 11, "proto": 20, "src_port": 21, "dst_port": 22,
    "time_received_ns": 110, "time_flow_start_ns": 111, "time_flow_end_ns": 112,
}  # fmt: skip


def varint(value: int) -> bytes:
    """Seven bits in each byte, the lowest ones first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def message(**fields: int | str) -> bytes:
    """A ``FlowMessage`` without its length; addresses are text."""
    out = b""
    for name, value in fields.items():
        number = NUMBERS[name]
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            packed = ip_address(value).packed
            out += varint(number << 3 | 2) + varint(len(packed)) + packed
    return out


def after_length(content: bytes) -> bytes:
    """A message after its length, as goflow2 writes it."""
    return varint(len(content)) + content
