"""Transfers that take longer since others send more over the same links meanwhile.

Those who share a link take as long as all of their bytes need. A step in which transfers of other
jobs fall into those of this one may be longer than one in which they do not, and nothing is wrong.
So what a transfer takes longer is crowded as far as others have a larger share of the speed of
one of its links than in any step that is not slow. A slow link takes longer with the same share.
"""

from __future__ import annotations

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.context import Context, JobView, measured_once
from llmprism.methods.prism.durations import Durations
from llmprism.methods.prism.links import ARROW, DOWN, UP, parts_on
from llmprism.methods.prism.outside.incast import link_speed
from llmprism.methods.prism.parameters import OWN_SHARE
from llmprism.methods.prism.windows import Window
from llmprism.numerics.arrays import Codes, Floats


def is_crowded(durations: Durations, window: Window) -> bool:
    """Whether others explain what the transfers of a window take longer."""
    affected, nodes = window.affected(durations.steps), durations.graph.nodes
    sent = _sent_by_others(durations.context, durations.job)
    speed, flows = link_speed(durations.context, durations.job), durations.context.flows
    lost = np.maximum(durations.on_path.transfer_longer, 0.0)
    crowded = np.zeros_like(lost)
    for number in np.flatnonzero(lost[:, affected].any(axis=1)).tolist() if sent and speed else ():
        own = nodes.communicator == number
        begin, end = np.nan_to_num(nodes.begin[own]), np.nan_to_num(nodes.end[own])
        by, connections = durations.context.connections.by, nodes.communicators[number].connections
        rows = np.concatenate([by.rows(one) for one in connections.tolist()])
        calm = ~affected & (lost[number] < np.median(lost[number][affected]) / 2)
        lasting = np.maximum((end - begin).sum(axis=0), 1.0)
        for link in _links_on(flows, flows.path[rows]) & set(sent):
            size = np.interp(end, *sent[link]) - np.interp(begin, *sent[link])
            share = size.sum(axis=0) / speed / lasting
            more = (share - share[calm].max(initial=0.0)) * lasting
            crowded[number] = np.maximum(crowded[number], more)
    return bool(np.minimum(crowded, lost)[:, affected].sum() > OWN_SHARE * lost[:, affected].sum())


def _links_on(flows: FlowTable, codes: Codes) -> set[str]:
    """Links, each in one direction, that paths lead over."""
    parts = parts_on(flows, codes)
    return {part for part in parts if ARROW in part and not part.endswith((UP, DOWN))}


@measured_once
def _sent_by_others(context: Context, job: JobView) -> dict[str, tuple[Floats, Floats]]:
    """Of each link of ``job`` that others use: moments, and bytes of others until then."""
    flows, connections = context.flows, context.connections
    own = np.zeros(len(connections), np.bool_)
    own[np.concatenate([part.one.connections for part in job.phases.classes])] = True
    rows = np.flatnonzero(~own[connections.of_row])
    links = _links_on(flows, flows.path[own[connections.of_row]])
    used = {code: _links_on(flows, code) & links for code in np.unique(flows.path[rows]).tolist()}
    rows = rows[np.isin(flows.path[rows], [code for code, on in used.items() if on])]
    sent = {}
    for link in set().union(*used.values()):
        on_link = rows[np.isin(flows.path[rows], [code for code in used if link in used[code]])]
        lasting = np.maximum(flows.lengths_ns(on_link), 1)
        rate = flows.bytes[on_link] / lasting
        moment = np.concatenate((flows.start_ns[on_link], flows.start_ns[on_link] + lasting))
        order = np.argsort(moment, kind="stable")
        at = (moment[order] - job.ranks.origin_ns).astype(np.float64)
        slope = np.cumsum(np.concatenate((rate, -rate))[order])
        sent[link] = at, np.concatenate(([0.0], np.cumsum(slope[:-1] * np.diff(at))))
    return sent
