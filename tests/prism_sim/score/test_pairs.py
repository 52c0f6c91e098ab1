"""Pairs: a kind swapped, a pair missed, a pair invented; true bytes 4000 / 500 / 1000 a pair."""

import pandas as pd

ALL_BYTES = 4 * 4000 + 4 * 500 + 2 * 1000


def relabel(kind, **where):
    def change(pairs):
        hit = (pairs["src"] == where["src"]) & (pairs["dst"] == where["dst"])
        return pairs.assign(**{where.get("column", "kind"): pairs["kind"].mask(hit, kind)})

    return change


def test_one_swapped_kind_of_ten_costs_a_tenth(world):
    world.change("pairs", relabel("pp", src="a0", dst="a1"))
    pairs = world.score()["pairs"]
    assert pairs["accuracy"] == 0.9
    assert pairs["accuracy_unrefined"] == 1.0
    assert pairs["accuracy_bytes"] == 1 - 4000 / ALL_BYTES
    assert pairs["confusion"] == {"dp": {"dp": 5, "pp": 1}, "pp": {"pp": 4}}


def test_pairs_that_refinement_corrected_are_wrong_only_without_it(world):
    world.change("pairs", relabel("pp", src="a0", dst="a1", column="kind_unrefined"))
    pairs = world.score()["pairs"]
    assert pairs["accuracy"] == 1.0
    assert pairs["accuracy_unrefined"] == 0.9
    assert pairs["confusion_unrefined"] == {"dp": {"dp": 5, "pp": 1}, "pp": {"pp": 4}}


def test_direction_matters(world):
    world.change("pairs", lambda pairs: pairs[pairs["src"] != "b1"])
    pairs = world.score()["pairs"]
    assert pairs["total"] == 10
    assert pairs["accuracy"] == 0.9
    assert pairs["missing"] == 1
    assert pairs["confusion"]["dp"] == {"dp": 5, "missing": 1}


def test_an_invented_pair_is_counted_apart(world):
    ghost = pd.DataFrame([{"job": "job0", "src": "a0", "dst": "b0", "kind": "dp"}])
    world.change("pairs", lambda pairs: pd.concat([pairs, ghost]))
    pairs = world.score()["pairs"]
    assert pairs["accuracy"] == 1.0
    assert pairs["spurious"] == 1


def test_a_pair_without_a_kind_is_unknown(world):
    world.change("pairs", relabel(None, src="a0", dst="a2"))
    assert world.score()["pairs"]["confusion"]["pp"] == {"pp": 3, "unknown": 1}


def test_two_kinds_on_one_couple_of_nics_are_two_pairs(world):
    both = pd.DataFrame([{"job": "A", "src": "a0", "dst": "a1", "kind": "pp", "bytes": 2000}])
    world.truth["pairs"] = pd.concat([world.truth["pairs"], both])
    assert world.score()["pairs"]["accuracy"] == 10 / 11
    reverse = both.assign(job="job0", kind_unrefined="pp", confidence=0.1)
    world.change("pairs", lambda pairs: pd.concat([pairs, reverse]))
    assert world.score()["pairs"]["accuracy"] == 1.0


def test_a_truth_without_sizes_has_no_weighted_figure(world):
    world.truth["pairs"] = world.truth["pairs"].assign(bytes=None)
    pairs = world.score()["pairs"]
    assert pairs["accuracy"] == 1.0
    assert pairs["accuracy_bytes"] is None
