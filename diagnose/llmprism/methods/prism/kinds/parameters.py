"""Exchanges that move shards of parameters all through the passes, and so are data-parallel.

Ranks that hold shards gather parameters in forward and backward passes, as experts and other groups
exchange activations there. Messages of several sizes, the times of the last ones, and volumes that
are whole multiples of what gradients need show that they are parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.kinds.characters import Character
from llmprism.methods.prism.kinds.dense import period_of_begins
from llmprism.methods.prism.kinds.members import COUPLE
from llmprism.methods.prism.parameters import EQUAL, MOSTLY
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Codes, Floats

EXACTLY = 0.001  # of a volume: what headers add to one of two, one a multiple of the other
IN_A_SERVER = (1, 2, 4, 8, 16)  # ranks of a group of shards, one in sight on each of its rings
BLUR = 3.0  # standard errors within which a mean may be another value


def unless_parameters(
    connections: Connections,
    own: Sequence[tuple[TrafficClass, Codes]],
    characters: Sequence[Character],
    about: tuple[list[int], int, int],
    kind: tuple[str, float],
) -> tuple[str, float]:
    """``kind``, unless an exchange moves parameters of shards, or nobody can tell.

    Shards of other groups than the gradients show by their volume.
    ``about`` has the classes of the exchange, that of the gradients, and the number of steps.
    """
    together, main, count = about
    if all(characters[i].alike and not characters[i].is_merged for i in together):
        return kind
    if kind[0] == "cp":
        groups = {group for i in together for group in characters[i].groups}
        same = groups <= set(characters[main].groups)
        ends = all(_ends_with(characters[i], characters[main]) for i in together)
        return ("dp", 0.99) if same else (("dp", 0.6) if ends else kind)
    shards = [_moves_shards(connections, own, characters, i, main, count) for i in together]
    if None in shards:
        return "unknown", 0.0
    return ("dp", 0.99) if all(shards) else kind


def _moves_shards(
    connections: Connections,
    own: Sequence[tuple[TrafficClass, Codes]],
    characters: Sequence[Character],
    one: int,
    main: int,
    count: int,
) -> bool | None:
    """Whether a class has the volume of shards whose gradients the class ``main`` reduces.

    Parameters are gathered twice and gradients reduced inside a group of shards, in each
    micro-batch; then gradients of one shard are reduced across groups. With parameters of two bytes
    and gradients of four, the first is a whole multiple of the second; with others, of its half.
    Where a group has several ranks in a server, NVLink joins them: each of its rings shows one of
    them, and has its share of the bytes. None if it is a multiple only as far as samples and losses
    show.
    """
    shards, replicas = (max(len(group) for group in characters[i].groups) for i in (one, main))
    if replicas < COUPLE:
        return False
    volumes = [own[i][0].volumes(connections, own[i][1], count) for i in (one, main)]
    (inside, error), (across, theirs) = (_usual(each) for each in volumes)
    often = inside / across * (replicas - 1) / replicas
    blur = BLUR * float(np.hypot(error, theirs))
    times = [often * ranks / (shards * ranks - 1) for ranks in IN_A_SERVER]
    if any(round(each) >= 1 and abs(each - round(each)) <= EXACTLY * each for each in times):
        return True if blur <= EXACTLY else None
    maybe = any(abs(2 * each - round(2 * each)) <= 2 * blur * each for each in times)
    return None if maybe else False


def _usual(volumes: Floats) -> tuple[float, float]:
    """The usual one of ``volumes``, and its relative error: none if most are equal.

    Records are lost in some steps. Of samples, the mean counts.
    """
    median, mean = float(np.median(volumes)), float(volumes.mean())
    if (np.abs(volumes - median) <= EXACTLY * median).mean() >= MOSTLY:
        return median, 0.0
    return mean, float(volumes.std()) / max(mean, 1.0) / float(np.sqrt(volumes.size))


def _ends_with(one: Character, main: Character) -> bool:
    """Whether a class ends with the gradients in most steps: it moves parameters of shards.

    Activations end with the last backward pass, before the last gradients.
    """
    early = float(np.nanmedian(main.last_ns - one.last_ns))
    return early <= EQUAL * period_of_begins(main.first_ns)
