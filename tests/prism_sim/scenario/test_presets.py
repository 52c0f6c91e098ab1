"""Presets of models, and words for what is meant."""

import pytest

from prism_common.errors import UserError
from prism_sim.scenario.model_sizes import ModelSizes
from prism_sim.scenario.presets import PRESETS
from prism_sim.toolkit import Cluster, Job, did_you_mean, load_scenario, preset, stage_costs


@pytest.mark.parametrize(
    ("name", "published"),
    [
        # The exact counts of the released LLaMA checkpoints.
        ("llama-7b", 6_738_415_616),
        ("llama-13b", 13_015_864_320),
        ("llama-70b", 68_976_648_192),
        ("tinyllama-1.1b", 1_100_048_384),
        ("mistral-7b", 7_241_732_096),
        ("llama-3-8b", 8_030_261_248),
        ("llama-3.2-1b", 1_235_814_400),
        ("llama-3.2-3b", 3_212_749_824),
        # Without the norm after the embedding, and without norms of queries and keys.
        ("bloom-1b7", 1_722_408_960 - 2 * 2048),
        ("olmoe-1b-7b", 6_919_161_856 - 16 * 2 * 2048),
        ("llama-3-405b", 405_853_388_800),
        ("mixtral-8x7b", 46_702_792_704),
        # 176,247,271,424 with the gain and shift of the norm behind the embedding.
        ("bloom-176b", 176_247_271_424 - 2 * 14_336),
    ],
)
def test_a_model_has_exactly_the_parameters_of_its_release(name: str, published: int) -> None:
    assert preset(name).total_parameters == published


@pytest.mark.parametrize("name", ["gpt-22b", "gpt-175b", "gpt-530b", "gpt-1t"])
def test_gpt_follows_the_closed_form_of_its_paper(name: str) -> None:
    """Narayanan et al., SC'21, eq. 2: 12 l h^2 (1 + 13/12h + (V + s)/12lh)."""
    sizes = preset(name)
    layers, hidden = sizes.layers, sizes.hidden
    spread = (sizes.vocab + sizes.sequence_length) / (12 * layers * hidden)
    stated = 12 * layers * hidden**2 * (1 + 13 / (12 * hidden) + spread)
    final_norm = 2 * hidden  # which the paper's formula leaves out
    assert sizes.total_parameters == pytest.approx(stated + final_norm, rel=1e-12)


def test_a_preset_is_listed_under_its_own_name() -> None:
    assert all(sizes.name == name for name, sizes in PRESETS.items())


def test_a_misspelt_preset_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"'lama-7b'; did you mean llama-7b\?"):
        preset("lama-7b")


def _tiny(**changes: object) -> ModelSizes:
    sizes = {"layers": 1, "hidden": 8, "heads": 4, "vocab": 10, "sequence_length": 6}
    return ModelSizes.model_validate(sizes | changes)


def test_each_part_of_a_model_adds_its_weights() -> None:
    """Counted by hand for a width of 8: attention 4 x 64, feed-forward 2 x 8 x 32, norms 2 x 8."""
    assert _tiny().parameters_per_layer == 256 + 512 + 16
    assert _tiny(kv_heads=1).parameters_per_layer == 64 + 16 + 16 + 64 + 512 + 16
    assert _tiny(gated_ffn=True, ffn_hidden=20).parameters_per_layer == 256 + 3 * 160 + 16
    # A bias for each output of q, k, v, o (8 each) and of the two products (32 and 8), and
    # a shift in each of the two norms.
    assert _tiny(biases=True).parameters_per_layer == 256 + 512 + 16 + 32 + 40 + 16


def test_embedding_and_head_are_counted_once_each() -> None:
    untied, tied = _tiny(), _tiny(tied_embeddings=True, learned_positions=True)
    assert (untied.embedding_parameters, untied.head_parameters) == (80, 80 + 8)
    assert (tied.embedding_parameters, tied.head_parameters) == (80 + 48, 8)
    assert untied.total_parameters == 80 + untied.parameters_per_layer + 88


def test_a_mixture_has_its_published_total_and_active_parameters() -> None:
    """Tolerances: the figures are rounded to a tenth of a billion, DeepSeek's total to one."""
    mixtral, deepseek = preset("mixtral-8x7b"), preset("deepseek-v3")
    assert mixtral.active_parameters / 1e9 == pytest.approx(12.9, abs=0.05)
    assert deepseek.total_parameters / 1e9 == pytest.approx(671.0, abs=0.5)
    # Its README_WEIGHTS.md counts the head, but not the embedding, which is only looked up.
    met = deepseek.active_parameters - deepseek.embedding_parameters
    assert met / 1e9 == pytest.approx(36.6, abs=0.05)


def test_latent_attention_is_counted_matrix_by_matrix() -> None:
    """DeepSeek-V3, from its configuration: inputs times outputs, and two norms."""
    sizes = preset("deepseek-v3")
    query = 7168 * 1536 + 1536 * 128 * (128 + 64)
    keys_and_values = 7168 * (512 + 64) + 512 * 128 * (128 + 128)
    output = 128 * 128 * 7168
    assert sizes.attention_parameters == query + keys_and_values + output
    dense = 3 * 7168 * 18_432 + 2 * 7168 + 1536 + 512
    assert sizes.parameters_per_layer == sizes.attention_parameters + dense
    # Queries are 192 wide and values 128, of each of 128 heads.
    assert sizes.score_width == 128 * 160


def test_stages_own_all_parameters_of_a_mixture() -> None:
    """Sixteen ranks share the experts of a layer; together they hold the model."""
    sizes = preset("deepseek-v3")
    layers = (1, *[4] * 15)
    job = Job(
        name="a", model="deepseek-v3", dp=16, ep=16, pp=16, micro_batches=1, steps=1,
        stage_layers=layers,
    )  # fmt: skip
    stages = stage_costs(job, Cluster(servers=32))
    dense = sum(sum(stage.parameters) for stage in stages)
    experts = sum(sum(chunk.expert_parameters) for stage in stages for chunk in stage.chunks)
    assert dense + 16 * experts == sizes.total_parameters


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
