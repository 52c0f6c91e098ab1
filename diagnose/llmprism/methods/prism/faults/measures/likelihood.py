"""Of parts of the network that explain as much: which is the likeliest to be slow?

The one across which more time is lost, if they differ, and else the one with fewest reasons to be
healthy:

* A NIC comes before links and switches.
* A switch two of whose links explain as much is likelier than either of them.
* A link that is the only one seen of a switch is likelier than the switch.
* Both directions come before one.
* Of the two ends of a transfer that is slow in one direction, the one comes first whose other
  transfers lost time as well, and else the receiver: there the traffic of several senders meets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from llmprism.methods.prism.faults.context import Context
from llmprism.methods.prism.faults.measures.hops import ARROW, IN, OUT, culprit_of
from llmprism.methods.prism.faults.measures.tomography import CLOSE, Part

ORDER = ("address", "switch of two links", "link", "switch")


def in_order(context: Context, parts: Sequence[Part]) -> list[Part]:
    """``parts``, the best first; those that explain nearly as much as it in order of likelihood."""
    close = [part for part in parts if part.score >= CLOSE * parts[0].score]
    return [*preferred(context, close, parts), *(one for one in parts if one not in close)]


def preferred(context: Context, best: Sequence[Part], by_time: Sequence[Part] = ()) -> list[Part]:
    """Parts that explain as much, the likeliest first; ``by_time`` explain the time lost."""
    score = {part.name: part.score for part in by_time}
    ends = Counter(end for part in best if "|" in part.name for end in part.name.split("|"))

    def standing(part: Part) -> tuple[bool, float, float, int, float, bool]:
        kind, name, _ = culprit_of(context, part.name)
        sends, gets = score.get(name + OUT, 0.0), score.get(name + IN, 0.0)
        lost = max(score.get(part.name, 0.0), sends, gets)
        to_sender = part.name.endswith(OUT) or sends > gets
        place = ORDER.index(ORDER[1] if kind == "switch" and ends[name] > 1 else kind)
        both_ways = -round(score.get(name, 0.0), 1) if kind == "address" else 0.0
        return (
            ARROW in part.name,
            -round(part.score, 3),
            -round(lost, 1),
            place,
            both_ways,
            to_sender,
        )

    return sorted(best, key=standing)
