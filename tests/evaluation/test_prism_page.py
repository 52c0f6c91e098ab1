"""The page that compares both methods follows from the figures beside it."""

from __future__ import annotations

import json

from evaluation.study import hostile, prism, reliability

DOCUMENT = json.loads(prism.PAGE.with_suffix(".json").read_text())
RESULTS = {prism.World(one["family"], one["seed"]): one for one in DOCUMENT["worlds"]}


def test_every_family_has_every_seed():
    assert set(RESULTS) == {
        prism.World(family, seed) for family in hostile.families() for seed in prism.SEEDS
    }


def test_the_page_has_the_words_and_the_table_of_its_figures():
    made = prism.page_of({world: {**one, "answers": SOME} for world, one in RESULTS.items()})
    page = prism.PAGE.read_text()
    before, _ = made.split("## How sure it is")
    assert page.startswith(before)
    for error in DOCUMENT["calibration_error"].values():
        assert f"{error:.3f} for" in page


def test_the_calibration_error_is_the_mean_distance_of_confidence_and_share_right():
    answers = [["pairs", 0.6, True], ["pairs", 0.6, False], ["pairs", 0.9, True]]
    results = {prism.World("clean", 1): {"answers": answers}}
    (error,) = prism.calibration_errors(results).values()
    assert abs(error - (2 * 0.1 + 0.1) / 3) < 1e-9


def test_the_page_and_its_picture_have_the_same_bins():
    page = prism.PAGE.read_text()
    for one in DOCUMENT["reliability"]:
        share, count = f"{one['right']:.3f}", one["count"]
        assert f"| {one['confidence']:.3f} | {share} | {count} |" in page
    for name, error in DOCUMENT["calibration_error"].items():
        own = [one for one in DOCUMENT["reliability"] if one["answers"] == name]
        total = sum(one["count"] for one in own)
        apart = sum(one["count"] * abs(one["confidence"] - one["right"]) for one in own) / total
        assert abs(apart - error) < 0.001  # the table is rounded to three digits
    assert f"](../../docs/images/{prism.PICTURE.name})" in page
    assert prism.PICTURE.exists()


def test_the_reliability_diagram_has_a_panel_for_each_table_and_a_dot_for_each_bin():
    made = reliability.draw(DOCUMENT["reliability"])
    assert [axes.get_title(loc="left") for axes in made.axes] == ["layouts", "pairs"]
    dots = sum(len(axes.containers) for axes in made.axes)
    assert dots == len(DOCUMENT["reliability"])


SOME = [["pairs", 0.9, True], ["layouts", 0.9, True]]
