"""Messages about a scenario are in the words of its file, and lists of known keys are whole."""

import pytest

from prism_common.errors import UserError
from prism_sim.toolkit import did_you_mean, load_scenario

JOB = "cluster: {servers: 2}\njobs:\n  - {name: a, model: llama-7b, dp: 2, tp: 8, steps: 2}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (JOB.replace("jobs:", "jobs: 5\nspare:").split("spare")[0], "should be a list"),
        (JOB.replace("{servers: 2}", "7"), r"should be a mapping \(key: value\)"),
        (JOB.replace("steps: 2", "steps: two"), "should be a whole number"),
    ],
)
def test_messages_name_what_yaml_has(tmp_path, text, message):
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        load_scenario(path)
    assert not any(word in str(caught.value) for word in ("tuple", "dictionary", "instance of"))


def test_a_list_of_known_keys_is_whole():
    known = [f"key{number}" for number in range(40)]
    assert all(name in did_you_mean("xyz", known) for name in known)
