"""YAML as a tree in which every value knows its line, with YAML's traps closed."""

from pathlib import Path

import pytest

from prism_common.errors import UserError
from prism_sim.scenario.source import parse_source, parse_value, read_source


def _refused(text: str) -> list[str]:
    with pytest.raises(UserError) as caught:
        parse_source(text, "f")
    return [f"{problem.where} {problem.what}" for problem in caught.value.problems]


def test_scalars_are_read_as_yaml_1_2_has_them() -> None:
    text = (
        "a: no\nb: on\nc: 010\nd: 1:30\ne: 1e6\nf: 1_000\ng: 2026-01-01\nh: 0x1F\n"
        "i: '7'\nj: true\nk: -3\nl: 1.\nm: -.5e-3\nn: .inf\no: !!str 5\n"
    )
    assert parse_source(text, "f").values == {
        "a": "no", "b": "on", "c": 10, "d": "1:30", "e": 1e6, "f": 1000, "g": "2026-01-01",
        "h": "0x1F", "i": "7", "j": True, "k": -3, "l": 1.0, "m": -0.5e-3, "n": float("inf"),
        "o": "5",
    }  # fmt: skip


def test_a_key_without_a_value_counts_as_missing() -> None:
    assert parse_source("a: 1\nb:\nc: ~\nd: null\n", "f").values == {"a": 1}


def test_keys_and_items_know_their_lines() -> None:
    source = parse_source("a: 1\nb:\n  - c: 2\n    d:\n      e: 3\n  -\n    7\n", "f")
    places = {loc: int(where.removeprefix("f:")) for loc, where in source.places.items()}
    assert places == {
        (): 1,
        ("a",): 1,
        ("b",): 2,
        ("b", 0): 3,
        ("b", 0, "c"): 3,
        ("b", 0, "d"): 4,
        ("b", 0, "d", "e"): 5,
        ("b", 1): 7,
    }
    assert source.place(("b", 0, "d", "nothing")) == "f:4"


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n",
         ["f:4 key 'c' is given twice", "f:5 key 'a' is given twice"]),
        ("a:\na: 3\n", ["f:2 key 'a' is given twice"]),
        ("a:\n  b: 1\n\tc: 2\n", ["f:3 a tab is used for indentation"]),
        ("", ["f:1 the file is empty"]),
        ("# nothing but a comment\n", ["f:1 the file is empty"]),
        ("---\n", ["f:1 the file is empty"]),
        ("- a\n- b\n", ["f:1 the file is not a mapping of keys"]),
        ("just words\n", ["f:1 the file is not a mapping of keys"]),
        ("a: 1\n? [1, 2]\n: 3\n", ["f:2 a key must be a plain word"]),
        ("a: 1\nb:\n  <<: 7\n", ["f:3 << must be followed by a mapping"]),
        ("a: 1\nb: &b\n  c: *b\n", ["f:2 an anchor refers to itself"]),
    ],
)  # fmt: skip
def test_each_trap_of_yaml_has_its_words_and_lines(text: str, problems: list[str]) -> None:
    assert _refused(text) == problems


@pytest.mark.parametrize(
    ("text", "line"),
    [("a: [1, 2\nb: 3\n", 2), ("a: 1\n b: 2\n", 2), ("a: 'x\n", 2), ("a: 1\nb: *nobody\n", 2),
     ("a: 1\n---\nb: 2\n", 2), ("a: 1\nb: %x\n", 2), ("a: 1\nb: @x\n", 2)],
)  # fmt: skip
def test_a_syntax_error_has_its_line(text: str, line: int) -> None:
    (problem,) = _refused(text)
    assert problem.startswith(f"f:{line} not valid YAML: ")


def test_a_control_character_has_its_line() -> None:
    assert _refused("a: 1\nb: \x07\n")[0].startswith("f:2 character")


def test_tags_of_python_are_not_run() -> None:
    (problem,) = _refused("a: 1\nb: !!python/name:os.system x\n")
    assert problem.startswith("f:2 ")
    assert "is not plain YAML" in problem


def test_an_anchor_is_repeated_where_it_is_named() -> None:
    source = parse_source("a: &x {b: 1}\nc: [*x, *x]\n", "f")
    assert source.values == {"a": {"b": 1}, "c": [{"b": 1}, {"b": 1}]}
    assert source.place(("c", 1, "b")) == "f:1"


def test_a_merge_key_fills_in_and_does_not_overwrite() -> None:
    text = "a: &a {x: 1, y: 2, z: 3}\nb: &b {y: 5}\nc:\n  z: 4\n  <<: [*b, *a]\n"
    source = parse_source(text, "f")
    assert source.values["c"] == {"x": 1, "y": 5, "z": 4}
    assert [source.place(("c", key)) for key in "xyz"] == ["f:1", "f:2", "f:4"]


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9\n")
    for path in (tmp_path / "none.yaml", tmp_path, tmp_path / "latin.yaml"):
        with pytest.raises(UserError) as caught:
            read_source(path)
        assert caught.value.problems[0].where == str(path)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "windows.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    assert read_source(path).values == {"a": 1, "b": 2}


def _bomb(levels: int) -> str:
    """A few hundred bytes whose aliases expand to ``9 ** levels`` values."""
    lines = ["a0: &a0 [" + ", ".join(["x"] * 9) + "]"]
    lines += [
        f"a{level}: &a{level} [" + ", ".join([f"*a{level - 1}"] * 9) + "]"
        for level in range(1, levels)
    ]
    return "\n".join(lines)


HOSTILE = {
    "aliases that multiply": (_bomb(12), "aliases repeat more than"),
    "lists in lists": ("a: " + "[" * 100_000 + "]" * 100_000, "levels of nesting"),
    "mappings in mappings": ("{a: " * 100_000 + "}" * 100_000, "levels of nesting"),
    "blocks in blocks": (
        "\n".join(" " * level + "a:" for level in range(2000)), "levels of nesting"
    ),
    "aliases of aliases": (
        "a0: &a0 [x]\n" + "\n".join(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 3000)),
        "levels of nesting",
    ),
    "merges of merges": (
        "a0: &a0 {x: 1}\n" + "\n".join(f"a{n}: &a{n} {{<<: *a{n - 1}}}" for n in range(1, 3000)),
        "levels of nesting",
    ),
    "a number of many digits": ("a: " + "9" * 100_000, "is not plain YAML"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_few_words(name: str) -> None:
    text, reason = HOSTILE[name]
    problems = _refused(text)
    assert reason in problems[0]
    assert len("\n".join(problems)) < 500


@pytest.mark.parametrize("value", ["[" * 5000, "&a [*a]", "{a: &x [" + "[" * 500])
def test_a_hostile_override_is_refused_in_few_words(value: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_value(value, "--set jobs")
    assert [problem.where for problem in caught.value.problems] == ["--set jobs"]
    assert len(str(caught.value)) < 500


def test_a_path_as_long_as_one_likes_is_refused() -> None:
    with pytest.raises(UserError, match="levels of nesting"):
        parse_source("a: 1", "f").override_all({".".join("a" * 10_000): 1})


def test_a_file_without_end_is_refused() -> None:
    with pytest.raises(UserError, match="larger than 64 MiB"):
        read_source(Path("/dev/zero"))


def test_aliases_and_merges_that_people_write_are_read() -> None:
    text = "a: &a {x: 1, y: [2]}\nb: *a\nc: {<<: *a, x: 3}\n"
    same = {"x": 1, "y": [2]}
    assert parse_source(text, "f").values == {"a": same, "b": same, "c": {"x": 3, "y": [2]}}
