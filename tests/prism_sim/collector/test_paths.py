"""Names and paths in records."""

from __future__ import annotations

import pandas as pd
import pytest

from records import collected, effects, many
from tiny import simulate_one

N = 20_000
WHOLE = "leaf000|spine00|leaf001"


def exported_paths(folder, count=N, **fields):
    frame = collected(folder, effects({"kind": "paths", **fields}), many(count))
    return frame["path"].astype(object)


def middle(folder):
    """The path that the record's hash takes, by either spine."""
    return str(exported_paths(folder, 1, missing=0).iloc[0])


def assert_share(mask, expected):
    """The share of N draws is within four standard deviations of ``expected``."""
    deviation = (expected * (1 - expected) / N) ** 0.5
    assert abs(mask.mean() - expected) <= 4 * deviation


def test_without_shares_it_changes_nothing(tmp_path):
    assert middle(tmp_path) in {WHOLE, WHOLE.replace("spine00", "spine01")}


def test_listed_alone_it_leaves_no_path(tmp_path):
    assert exported_paths(tmp_path, 5).isna().all()


@pytest.mark.parametrize("given", [{"hidden": []}, {"unknown_hop": 0}, {"truncated": 0}])
def test_with_another_field_no_path_is_missing(tmp_path, given):
    assert exported_paths(tmp_path, 5, **given).notna().all()


def test_a_hidden_switch_is_always_a_question_mark(tmp_path):
    paths = exported_paths(tmp_path, 10, hidden=["spine00", "spine01"])
    assert set(paths) == {"leaf000|?|leaf001"}


def test_hops_are_unknown_each_for_itself(tmp_path):
    paths = exported_paths(tmp_path, unknown_hop=0.2)
    assert_share(paths == middle(tmp_path), 0.8**3)
    assert_share(paths == "?|?|?", 0.2**3)
    assert set(paths.str.count("[|]")) == {2}
    for place, hop in enumerate(middle(tmp_path).split("|")):
        assert set(paths.str.split("|").str[place]) == {"?", hop}
    for hop in range(3):
        assert_share(paths.str.split("|").str[hop] == "?", 0.2)


def test_truncated_paths_keep_their_begin(tmp_path):
    paths, whole = exported_paths(tmp_path, truncated=0.5), middle(tmp_path)
    assert_share(paths == whole, 0.5)
    assert_share(paths == whole.split("|")[0], 0.25)  # one hop of three, or two
    assert_share(paths == "|".join(whole.split("|")[:2]), 0.25)
    assert all(whole.startswith(path) for path in set(paths))


def test_missing_paths_are_null(tmp_path):
    assert_share(exported_paths(tmp_path, missing=0.3).isna(), 0.3)
    assert exported_paths(tmp_path, 5, missing=1).isna().all()


def test_all_at_once_and_paths_of_one_hop(tmp_path):
    paths = exported_paths(
        tmp_path, unknown_hop=0.1, truncated=0.4, missing=0.2, hidden=["leaf001"]
    )
    assert_share(paths.isna(), 0.2)
    known = paths.dropna().str.split("|")
    assert set(known.str[2].dropna()) == {"?"}
    assert_share(paths.str.count("[|]") == 2, 0.8 * 0.6)


@pytest.mark.parametrize(
    ("point", "paths"),
    [("ingress", {"leaf000|?"}), ("egress", {"?|leaf001"}), ("both", {"leaf000|?", "?|leaf001"})],
)
def test_an_exporter_knows_its_own_place_on_a_path(tmp_path, point, paths):
    listed = effects(
        {"kind": "observation", "point": point}, {"kind": "paths", "exporter_only": True}
    )
    assert set(collected(tmp_path, listed, many(50))["path"]) == paths


def test_an_exporter_that_serves_both_ends_knows_the_whole_path(tmp_path):
    fabric = {"kind": "tor", "leaf_ports": 2, "spines": 2}
    listed = effects({"kind": "paths", "exporter_only": True})
    assert set(collected(tmp_path, listed, many(50), fabric=fabric)["path"]) == {"leaf000"}


EPOCH = 1_767_225_600 * 10**9
OVER_TCP = {"kind": "headers", "transport": "tcp"}
FABRIC = {"kind": "tor", "leaf_ports": 1, "spines": 2}
ONE_EACH = {"gpus_per_server": 1, "nics_per_server": 1, "fabric": FABRIC}  # paths tell them apart
ENDS = ["src", "src_port", "dst", "dst_port"]
ADDRESS = {f"s000{i}": f"10.0.{i}.1" for i in range(4)}


def simulated(folder, *listed):
    """Flow records of a ring over four servers with one NIC each."""
    run = simulate_one(folder, dp=4, cluster=ONE_EACH, collector=effects(*listed))
    frame = pd.read_parquet(run.flows).astype({"src": str, "dst": str, "path": str})
    order = ["start_ns", "end_ns", "bytes", "path"]  # what names have no part in
    return run, frame.sort_values(order, ignore_index=True)


def test_servers_behind_a_translator_share_an_address_and_no_port(tmp_path):
    _, plain = simulated(tmp_path / "plain", OVER_TCP, {"kind": "acknowledgements"})
    nat = {"kind": "nat", "servers": ["s0001", "s0003"], "address": "192.0.2.1"}
    _, frame = simulated(tmp_path / "nat", OVER_TCP, {"kind": "acknowledgements"}, nat)
    hidden = {ADDRESS["s0001"], ADDRESS["s0003"]}
    others = ["start_ns", "end_ns", "bytes", "path", "protocol"]
    pd.testing.assert_frame_equal(plain[others], frame[others])
    for side in ("src", "dst"):
        hidden_before, shared = plain[side].isin(hidden), frame[side] == "192.0.2.1"
        assert (hidden_before == shared).all()
        inner = plain.loc[hidden_before, [side, f"{side}_port"]].apply(tuple, axis=1)
        outer = frame.loc[hidden_before, f"{side}_port"]
        mapping = set(zip(inner, outer, strict=True))
        assert len(mapping) == inner.nunique() == outer.nunique()  # one to one
    there = set(frame[ENDS].itertuples(index=False, name=None))
    assert {(c, d, a, b) for a, b, c, d in there} == there  # answers find their way back


def test_neighbours_behind_a_translator_see_each_other_as_they_are(tmp_path):
    nat = {"kind": "nat", "servers": ["s0000", "s0001"]}
    _, frame = simulated(tmp_path, nat)
    couples = set(zip(frame["src"], frame["dst"], strict=True))
    common = ADDRESS["s0000"]
    ring = {(common, ADDRESS["s0001"]), (common, ADDRESS["s0002"]), ("10.0.2.1", "10.0.3.1")}
    assert ring <= couples
    assert (ADDRESS["s0001"], ADDRESS["s0002"]) not in couples


def test_an_address_moves_with_the_time(tmp_path):
    _, plain = simulated(tmp_path / "plain")
    middle_ns = int(plain["start_ns"].median())
    move = {"address_of": "s0003", "to": "s0001", "at_s": (middle_ns - EPOCH) / 1e9}
    _, frame = simulated(tmp_path / "moved", {"kind": "moved_addresses", "moves": [move]})
    late = plain["start_ns"] >= middle_ns
    assert 0 < late.sum() < len(plain)
    for side in ("src", "dst"):
        expected = plain[side].mask(late & (plain[side] == "10.0.1.1"), "10.0.3.1")
        assert (frame[side] == expected).all()


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("moves", "early", "late"),
    [
        ([(0, 1, 0), (1, 0, 0)], "1023", "1023"),  # a swap
        ([(0, 1, 0), (1, 2, 1)], "0023", "0013"),  # an address is passed on, another follows
        ([(3, 1, 0), (2, 1, 1)], "0323", "0223"),  # the latest holds
    ],
)
def test_every_server_is_renamed_once_for_any_order_of_moves(tmp_path, moves, early, late, turned):
    _, plain = simulated(tmp_path / "plain")
    middle_ns = int(plain["start_ns"].median())
    when_s = (0, (middle_ns - EPOCH) / 1e9)
    listed = [
        {"address_of": f"s000{of}", "to": f"s000{to}", "at_s": when_s[at]} for of, to, at in moves
    ]
    effect = {"kind": "moved_addresses", "moves": listed[::-1] if turned else listed}
    _, frame = simulated(tmp_path / "moved", effect)
    for side in ("src", "dst"):
        names = [
            {f"10.0.{server}.1": f"10.0.{shown}.1" for server, shown in enumerate(row)}
            for row in (early, late)
        ]
        expected = plain[side].map(names[0])
        after = plain["start_ns"] >= middle_ns
        expected = expected.mask(after, plain[side].map(names[1]))
        assert (frame[side] == expected).all()


def test_new_names_move_no_draw_and_no_truth(tmp_path):
    loss = {"kind": "loss", "probability": 0.5}
    names = [
        {"kind": "nat", "servers": ["s0001"], "address": "192.0.2.1"},
        {"kind": "moved_addresses", "moves": [{"address_of": "s0003", "to": "s0002", "at_s": 0}]},
    ]
    was, plain = simulated(tmp_path / "plain", loss)
    run, frame = simulated(tmp_path / "named", loss, *names)
    times = ["start_ns", "end_ns", "bytes"]
    pd.testing.assert_frame_equal(plain[times], frame[times])
    pd.testing.assert_frame_equal(was.truth("pairs"), run.truth("pairs"))
