"""Paired differences of results that can be computed by hand."""

from __future__ import annotations

import pytest

from evaluation.exam.command import Saved, read, save
from evaluation.exam.measures import Measure
from evaluation.exam.paired import as_table, changes, common, differences
from prism_common.errors import UserError

HITS = Measure("hits", lambda _, grade: (grade["hits"], grade["size"]))
ERRORS = Measure("errors", lambda _, grade: (grade["hits"], grade["size"]), more_is_better=False)


def worlds(*hits, size=1):
    return [
        {"family": "f", "seed": seed, "methods": {"prism": {"hits": one, "size": size}}}
        for seed, one in enumerate(hits)
    ]


def difference(before, after, measure=HITS):
    (found,) = differences(before, after, [measure])
    return found


def test_equal_results_differ_by_nothing_with_no_error():
    found = difference(worlds(1, 0, 1), worlds(1, 0, 1))
    assert (found.before, found.change, found.half) == (pytest.approx(2 / 3), 0.0, 0.0)
    assert found.verdict == ""


def test_one_more_hit_in_every_world_has_no_error_whatever_the_worlds_are():
    found = difference(worlds(0, 5, 1, 9), worlds(1, 6, 2, 10))
    assert (found.change, found.half) == (1.0, pytest.approx(0.0, abs=1e-12))
    assert found.verdict == "better"


def test_the_error_is_that_of_the_mean_difference():
    """Differences of 0 and 1 in equal parts: a standard deviation of 1/2, over 20 worlds."""
    found = difference(worlds(*[0] * 20), worlds(*[0, 1] * 10))
    assert found.half == pytest.approx(1.96 * 0.5 / 20**0.5, rel=0.05)
    assert found.verdict == "better"
    assert difference(worlds(*[0] * 20), worlds(*[0, 1] * 10), ERRORS).verdict == "worse"


def test_a_difference_within_its_error_has_no_verdict():
    assert difference(worlds(1, 0, 1, 0), worlds(0, 1, 1, 1)).verdict == ""


def test_only_worlds_that_both_have_are_compared():
    found = difference(worlds(1, 1, 0), worlds(1, 1))
    assert (found.before, found.after, found.size) == (1.0, 1.0, 2)
    assert len(common(worlds(1), worlds(1, 0))) == 1


def test_a_figure_without_cases_has_no_difference():
    found = difference(worlds(0, size=0), worlds(1))
    assert (found.before, found.after, found.change, found.half) == (None, 1.0, None, None)


def test_the_table_has_both_figures_and_the_difference():
    text = as_table([difference(worlds(0, 0), worlds(1, 1))], ("old", "new"))
    assert text.splitlines()[-1] == "| hits | 2 | 0.0 % | 100.0 % | +100.0 ± 0.0 | better |"


def test_changes_are_due_faults_that_one_names_first():
    faults = [{"due": True, "kind": "slow_nic"}, {"due": False, "kind": "slow_gpu"}]

    def result(*first):
        grade = {"faults": [{"first": one} for one in first]}
        return {"family": "f", "seed": 3, "faults": faults, "methods": {"prism": grade}}

    assert [*changes([result(0, 0)], [result(1, 1)])] == ["+ f 3 slow_nic"]
    assert [*changes([result(1, 0)], [result(0, 1)])] == ["- f 3 slow_nic"]


def test_results_are_read_by_label_method_or_file(tmp_path):
    path = save(Saved("old", "prism", "develop", worlds(1)), tmp_path)
    save(Saved("old", "paper", "develop", worlds(0)), tmp_path)
    assert read("old", tmp_path) == read(str(path)) == read("old.prism", tmp_path)
    assert read("old.paper", tmp_path).results == worlds(0)
    with pytest.raises(UserError, match="old"):
        read("new", tmp_path)
