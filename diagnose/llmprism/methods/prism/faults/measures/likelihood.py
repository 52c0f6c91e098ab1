"""Of parts of the network that explain as much: which is the likeliest to be slow?

The one across which more time is lost, if they differ, and else the one with fewest reasons to be
healthy:

* A NIC comes before links and switches.
* A switch two of whose links explain as much is likelier than either of them.
* A link that is the only one seen of a switch is likelier than the switch.
* Both directions come before one.
* Of the two ends of a transfer that is slow in one direction, the receiver comes first: there the
  traffic of several senders meets. Not where hosts send over TCP and the records are made: there
  a NIC that sends slowly fills its records evenly. A host that waits for a slow receiver sends what
  its buffers hold at its own pace, and then rests. So what a NIC sends shows all that it does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from llmprism.methods.prism.faults.context import Context
from llmprism.methods.prism.faults.measures.hops import ARROW, IN, OUT, culprit_of
from llmprism.methods.prism.faults.measures.tomography import CLOSE, Part
from llmprism.methods.prism.pipelines.last_stage import TCP

ORDER = ("address", "switch of two links", "link", "switch")


def in_order(context: Context, parts: Sequence[Part]) -> list[Part]:
    """``parts``, the best first; those that explain nearly as much as it in order of likelihood."""
    close = [part for part in parts if part.score >= CLOSE * parts[0].score]
    return [*preferred(context, close, parts), *(one for one in parts if one not in close)]


def preferred(context: Context, best: Sequence[Part], by_time: Sequence[Part] = ()) -> list[Part]:
    """Parts that explain as much, the likeliest first; ``by_time`` explain the time lost."""
    score = {part.name: part.score for part in by_time}
    sender_first = _shows_senders(context)
    ends = Counter(end for part in best if "|" in part.name for end in part.name.split("|"))

    def standing(part: Part) -> tuple[bool, float, float, int, bool]:
        kind, name, _ = culprit_of(context, part.name)
        sends, gets = score.get(name + OUT, 0.0), score.get(name + IN, 0.0)
        lost = max(score.get(part.name, 0.0), sends, gets)
        second = part.name.endswith(OUT) or sends > gets
        if sender_first:
            second = part.name.endswith(IN) or gets > sends
        place = ORDER.index(ORDER[1] if kind == "switch" and ends[name] > 1 else kind)
        one_way = ARROW in part.name and not (sender_first and part.name.endswith(OUT))
        return one_way, -round(part.score, 3), -round(lost, 1), place, second

    return sorted(best, key=standing)


def _shows_senders(context: Context) -> bool:
    """Whether records show how hosts send over TCP."""
    protocol = context.flows.optional.get("protocol")
    ingress = context.flows.meta.get("observation_point") == "ingress"
    return ingress and protocol is not None and bool((protocol == TCP).any())
