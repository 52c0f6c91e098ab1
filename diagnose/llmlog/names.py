"""Names of nodes: which texts can be one, which mean the same one, and what a file's name tells."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F]*:[0-9a-fA-F:]*:[0-9a-fA-F:]*")
_NODE = re.compile(r"(?=.*\d)[A-Za-z][\w-]*(?:\.[\w-]+)*")
_INTERFACE = re.compile(r"-(?:ib|hsn|eth|opa|bond|mlx|roce)\d*$")
_CUT = re.compile(r"[._-]+")
_PLAIN = re.compile(
    r"(?i)(?:pre|post)?(?:train(?:er|ing)?|finetune|sft|eval|test|debug|run|job|log|logs|out|output"
    r"|err|error|errors|std|stdout|stderr|console|nohup|slurm|driver|main|launch|torchrun|mpi|mpirun"
    r"|ray|jax|hf|deepspeed|ds|megatron|titan|pod|pods|kubectl|tail|head|part|chain|all|full|combined"
    r"|batch|trial|task|rank|worker|proc|process|local|global|step|epoch|attempt|result|results|tmp"
    r"|latest|decode|iso|raw|dump|copy|sample|example|data|history|messages|syslog|kern|kernel|dmesg"
    r"|journal|txt|app|server|client|agent|screen|experiment|exp|llama|gpt|neox|bert|t5|opt|bloom"
    r"|qwen|mistral|mixtral|deepseek|gemma|phi|falcon)\d*|gpu\d?"
)
_OF_MACHINES = re.compile(r"(?i)(?:gpu|pod|worker|proc|hf|ds|jax|ray|mpi|t5)\d*")
"""Plain words that the name of a machine can begin with: they stay with it."""
_CODE = re.compile(r"[A-Z]{1,4}\d{3,6}")
"""Numbers of errors, such as EI0002."""
_NUMBER = re.compile(r"(?i)\d+|\d+[bmk]|v\d+|\d{4,8}t?\d*|[0-9a-f]{7,}")
_FILE_RANK = re.compile(r"(?i)(?:^|[._/-])(?:rank|proc|process)[._-]?(\d+)(?=[._-]|$)")


def is_address(name: str) -> bool:
    """Whether ``name`` is an IP address."""
    return _ADDRESS.fullmatch(name) is not None


_NO_NODE = re.compile(
    r"(?i)localhost\S*|127\.\d+\.\d+\.\d+|::1|0\.0\.0\.0|none|null|unknown|n/a"
    r"|(?=\w*\d)(?=\w*[a-f])[0-9a-f]{12,64}"
)
"""What stands where a host should: a loopback address, a container's id, nothing."""


def names_node(name: str) -> bool:
    """Whether a text that stands for a host names a machine.

    >>> [names_node(name) for name in ("gpu-m4", "localhost", "127.0.0.1", "3f2a9c1b7d4e")]
    [True, False, False, False]
    """
    return _NO_NODE.fullmatch(name) is None


def looks_like_node(name: str) -> bool:
    """Whether ``name`` can be that of a machine: an address, or letters with a number.

    >>> [looks_like_node(name) for name in ("gpu-a1", "10.0.0.4", "INFO", "rank3", "EI0002")]
    [True, True, False, False, False]
    """
    return is_address(name) or (
        _NODE.fullmatch(name) is not None
        and _PLAIN.fullmatch(_CUT.sub("", name)) is None
        and _CODE.fullmatch(name) is None
    )


def short(name: str) -> str:
    """A name without its domain and without the interface that stands for it.

    >>> short("gpu-a3-ib0.cluster.local"), short("10.9.0.3")
    ('gpu-a3', '10.9.0.3')
    """
    if is_address(name):
        return name
    return _INTERFACE.sub("", name.split(".", 1)[0])


def of_file(stem: str) -> str | None:
    """The node that a file's name can stand for; None if all its words are plain ones.

    >>> of_file("gpu21.kernel"), of_file("train"), of_file("slurm-7711"), of_file("a")
    ('gpu21', None, None, 'a')
    """
    words = _CUT.split(stem)
    if all(_PLAIN.fullmatch(word) or _NUMBER.fullmatch(word) for word in words if word):
        return None
    while words and _PLAIN.fullmatch(words[-1]) and not words[-1][-1:].isdigit():
        stem = stem[: -len(words.pop()) or None].rstrip("._-")
    while words and _PLAIN.fullmatch(words[0]) and not words[0][-1:].isdigit():
        if _OF_MACHINES.fullmatch(words[0]):
            break
        stem = stem[len(words.pop(0)) :].lstrip("._-")
    return stem or None


def rank_of_file(stem: str) -> int | None:
    """The rank in a file's name.

    >>> rank_of_file("logs/rank_3.stderr"), rank_of_file("gpu3")
    (3, None)
    """
    match = _FILE_RANK.search(stem)
    return int(match[1]) if match else None
