"""Incomplete paths, hop by hop."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from prism_sim.collector.effects.paths import Paths
from prism_sim.loading.checks import errors
from prism_sim.loading.scenario import Scenario
from records import collected, effects, many

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


def test_an_unknown_switch_is_refused():
    effect = {"kind": "paths", "hidden": ["spine99"]}
    scenario = {
        "cluster": {"servers": 2}, "jobs": [], "duration_s": 1, "collector": effects(effect),
    }  # fmt: skip
    (remark,) = errors(Scenario.model_validate(scenario))
    assert remark.loc == ("collector", "effects", 0, "hidden", 0)
    assert "spine99" in remark.what


@pytest.mark.parametrize("field", ["unknown_hop", "truncated", "missing"])
def test_shares_are_shares(field):
    with pytest.raises(ValidationError, match="less than or equal to 1"):
        Paths.model_validate({field: 1.5})


@pytest.mark.parametrize(
    ("point", "paths"),
    [
        ("ingress", {"leaf000|?"}),
        ("egress", {"?|leaf001"}),
        ("both", {"leaf000|?", "?|leaf001"}),
    ],
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
