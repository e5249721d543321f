"""Draft checkpoints: published layouts in and out, strict about what they hold; 8-bit storage and what it costs."""

import json
from dataclasses import replace

import golden
import pytest
import torch
from safetensors.torch import load_file, save_file
from toys import DEVICE, PROMPT, argmax_oracle, block_net, tiny

from engine import LM, Engine, Sampling
from engine.checkpoints import deepspec, export, load, pack, restore, store, unpack, zlab
from engine.drafters.dflash import DFlash, DFlashDrafter
from engine.drafters.dspark import DSpark, DSparkDrafter
from engine.load import Loaded
from engine.weights import LoadError

QWEN3_4B = {
    "architectures": ["DFlashDraftModel"], "attention_bias": False, "block_size": 16, "head_dim": 128, "hidden_act": "silu",
    "dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]}, "hidden_size": 2560,
    "intermediate_size": 9728, "layer_types": ["full_attention"] * 5, "max_position_embeddings": 40960,
    "num_attention_heads": 32, "num_hidden_layers": 5, "num_key_value_heads": 8, "num_target_layers": 36,
    "rms_norm_eps": 1e-6, "rope_scaling": None, "rope_theta": 1000000, "sliding_window": None, "vocab_size": 151936,
    "tie_word_embeddings": True, "use_sliding_window": False,
}  # fmt: skip
DSPARK_4B = {k: v for k, v in QWEN3_4B.items() if k not in ("dflash_config", "rope_theta")} | {
    "architectures": ["Qwen3DSparkModel"], "block_size": 7, "markov_rank": 256, "markov_head_type": "vanilla",
    "enable_confidence_head": True, "confidence_head_with_markov": True, "mask_token_id": 151669,
    "target_layer_ids": [1, 9, 17, 25, 33], "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"},
}  # fmt: skip


def target(**rest):
    """`tiny()` with six layers as a loaded model in float32."""
    model = tiny(layers=6, dtype=torch.float32, **rest)
    return Loaded(model.requires_grad_(False), None, None, "tiny", "random", "abc", "float32", DEVICE)


def net(kind=DFlash, **rest):
    return block_net(kind, dtype=torch.float32, target_layers=6, taps=(0, 2, 4), **rest)


def same(a, b, tolerance=0.0):
    assert type(a) is type(b) and a.config == b.config
    for name, tensor in a.state_dict().items():
        torch.testing.assert_close(tensor, b.state_dict()[name], atol=tolerance, rtol=tolerance)


def halved(net):
    """The same net, rounded to bfloat16."""
    net.load_state_dict({name: t.bfloat16().float() for name, t in net.state_dict().items()})
    return net


# ---- published sizes


def count(net):
    return len(net.state_dict()), sum(p.numel() for p in net.parameters())


def test_the_published_configs_give_the_published_sizes():
    with torch.device("meta"):
        assert count(zlab(QWEN3_4B)) == (58, 537_427_200)
        spark = deepspec(DSPARK_4B)
        assert count(spark) == (62, 615_221_249)  # and two frozen copies of the target's matrices
        assert count(deepspec(DSPARK_4B | {"markov_rank": 0, "enable_confidence_head": False})) == (58, 537_427_200)
        assert (spark.config.drafts, zlab(QWEN3_4B).config.drafts) == (7, 15)


def test_both_spellings_of_the_settings_are_read():
    moved = {k: v for k, v in QWEN3_4B.items() if k not in ("block_size", "rope_theta")}
    moved["dflash_config"] = QWEN3_4B["dflash_config"] | {"block_size": 16}
    moved["rope_parameters"] = {"rope_theta": 1e6, "rope_type": "default"}
    flat = {k: v for k, v in QWEN3_4B.items() if k != "dflash_config"} | QWEN3_4B["dflash_config"]
    with torch.device("meta"):
        assert zlab(QWEN3_4B).config == zlab(moved).config == zlab(flat).config


@pytest.mark.parametrize(
    "change,words",
    [
        ({"dflash_config": {"mask_token_id": 1}}, r"target_layer_ids \(the usual five.*\[1, 9, 17, 25, 33\]"),  # E41
        ({"block_size": None}, "block_size"),
        ({"rope_theta": None}, "rope_theta"),
        ({"layer_types": ["sliding_attention"] * 4 + ["full_attention"]}, "sliding_attention"),
        ({"layer_types": None, "sliding_window": 2048}, "sliding_attention"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "yarn"),
        ({"rope_parameters": {"rope_type": "proportional"}}, "proportional"),
        ({"final_logit_softcapping": 30.0}, "final_logit_softcapping 30.0"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"is_causal": True}, "is_causal"),
        ({"sample_from_anchor": True}, "sample_from_anchor"),
    ],
)
def test_e41_what_a_config_leaves_open_or_asks_in_vain_is_named(change, words):
    with pytest.raises(LoadError, match=words):
        zlab(QWEN3_4B | change)


# ---- in and out


@pytest.mark.parametrize(
    "kind,rest",
    [
        (DFlash, {}),
        (DFlash, {"anchor_guesses": True}),
        (DSpark, {"anchor_guesses": True, "markov_rank": 6}),
        (DSpark, {"anchor_guesses": True, "markov_rank": 6, "markov_kind": "gated", "confidence": False}),
        (DSpark, {"anchor_guesses": True, "markov_rank": 6, "markov_kind": "rnn", "confidence_reads_token": False}),
        (DSpark, {"anchor_guesses": True, "markov_rank": 0, "confidence_reads_token": False}),
    ],
)
def test_e47_what_is_exported_loads_again(tmp_path, kind, rest):
    loaded, ours = target(), halved(net(kind, **rest))
    export(ours, loaded, tmp_path)
    same(load(tmp_path, loaded).model, ours)
    file = load_file(tmp_path / "model.safetensors")
    assert {t.dtype for t in file.values()} == {torch.bfloat16}
    assert ("lm_head.weight" in file) == ours.config.anchor_guesses


def test_a_layout_that_nobody_publishes_is_not_exported(tmp_path):
    with pytest.raises(ValueError, match="no published format"):
        export(net(DSpark, markov_rank=6), target(), tmp_path)


@pytest.mark.parametrize("head", ["vanilla", "gated", "rnn"])
def test_the_references_own_checkpoints_load_and_draft(head):
    root = golden.folder("dspark")
    model = golden.target("dspark", golden.read("dspark", "target_config.json"))
    ours = load(root / f"draft_{head}", Loaded(model, None, None, "fixture", "random", "abc", "float32", DEVICE)).model
    told, lm = golden.read("dspark"), LM(model)
    steps = list(Engine(lm, DSparkDrafter(ours, lm)).generate(told["prompt"], Sampling(max_new=40)))
    assert steps[-1].sequence.output == told[head]["greedy_output"]


def test_weights_in_several_files_are_read_together(tmp_path):
    loaded, ours = target(), halved(net())
    export(ours, loaded, tmp_path)
    whole = load_file(tmp_path / "model.safetensors")
    names = sorted(whole)
    (tmp_path / "model.safetensors").unlink()
    for i, part in enumerate((names[:9], names[9:]), 1):
        save_file({name: whole[name] for name in part}, tmp_path / f"model-{i:05}-of-00002.safetensors")
    same(load(tmp_path, loaded).model, ours)


# ---- refusals


@pytest.fixture
def exported(tmp_path):
    def make(change=lambda tensors: None, config=(), **rest):
        export(net(DSpark, anchor_guesses=True, markov_rank=6), target(**rest), tmp_path)
        tensors = load_file(tmp_path / "model.safetensors")
        change(tensors)
        save_file(tensors, tmp_path / "model.safetensors")
        raw = json.loads((tmp_path / "config.json").read_text()) | dict(config)
        (tmp_path / "config.json").write_text(json.dumps(raw))
        return tmp_path

    return make


@pytest.mark.parametrize(
    "change,words",
    [
        (lambda t: t.pop("fc.weight"), "missing: fc.weight"),
        (lambda t: t.update({"q.bias": torch.ones(3)}), "not expected: q.bias"),
        (lambda t: t.update({"fc.weight": torch.ones(32, 64)}), r"fc.weight \[32, 64\], not \[32, 96\]"),
        (lambda t: t.update({"lm_head.weight": torch.ones(7, 32)}), r"lm_head.weight of the drafter is \[7, 32\]"),
        (lambda t: t["lm_head.weight"].mul_(1.1), "lm_head.weight of the drafter is not the target's"),
    ],
)
def test_e40_leftovers_gaps_and_other_matrices_are_named(exported, change, words):
    with pytest.raises(LoadError, match=words):
        load(exported(change), target())


@pytest.mark.parametrize(
    "config,words",
    [
        ({"target_layer_ids": [0, 2, 5]}, r"taps layers \[0, 2, 5\]; of tiny it may tap 0 to 4"),
        ({"target_layer_ids": [-1, 2, 4]}, "may tap 0 to 4"),
        ({"mask_token_id": 11}, "mask is id 11; the target's embedding has 11 rows"),
        ({"num_target_layers": 8}, "target with layers 8; tiny has 6"),
        ({"hidden_size": 64}, "hidden size 64; tiny has 32"),
        ({"architectures": ["EagleModel"]}, r"\['EagleModel'\]. Possible: DFlashDraftModel, Qwen3DSparkModel"),
        ({"architectures": None}, "no architecture"),
        ({"enable_confidence_head": False}, "not expected: confidence_head.proj.bias, confidence_head.proj.weight"),
        ({"markov_head_type": "rnn"}, "missing: markov_head.joint_proj.bias"),
        ({"target_layer_ids": [0, 2]}, r"fc.weight \[32, 96\], not \[32, 64\]"),
    ],
)
def test_e42_e47_a_config_that_does_not_fit_is_refused(exported, config, words):
    with pytest.raises(LoadError, match=words):
        load(exported(config=config), target())


def test_a_folder_without_a_config_is_refused(tmp_path):
    with pytest.raises(LoadError, match="no config.json"):
        load(tmp_path, target())


def test_weights_refuse_a_target_they_were_not_trained_for_unless_told_to(tmp_path):
    loaded, ours = target(), halved(net())
    other = replace(loaded, hash="other")
    export(ours, loaded, tmp_path / "published")
    store(ours, tmp_path / "ours.safetensors", loaded.hash)
    for read, source in ((load, tmp_path / "published"), (restore, tmp_path / "ours.safetensors")):
        with pytest.raises(LoadError, match="trained for weights abc; tiny has other"):
            read(source, other)
        assert read(source, other, any_target=True).model.config == ours.config


# ---- storage


def test_eight_bits_cost_half_a_step_of_a_row_and_three_quarters_of_a_percent():
    state = net(DSpark, anchor_guesses=True, markov_rank=6).state_dict()
    kept = unpack(pack(state))
    for name, tensor in state.items():
        if tensor.dim() == 2:
            step = tensor.abs().amax(1, keepdim=True) / 127
            assert ((kept[name] - tensor).abs() <= step * 0.5001).all()
        else:
            assert torch.equal(kept[name], tensor)
    matrix = torch.randn(64, 576, generator=torch.Generator().manual_seed(0))
    lost = (unpack(pack({"w": matrix}))["w"] - matrix).norm() / matrix.norm()
    assert 0.007 < float(lost) < 0.008
    assert torch.equal(unpack(pack({"w": torch.zeros(3, 4)}))["w"], torch.zeros(3, 4))


@pytest.mark.parametrize("kind", [DFlash, DSpark])
def test_a_stored_drafter_comes_back_and_guesses_alike(tmp_path, kind):
    loaded, ours = target(), net(kind)
    path = tmp_path / "deep" / "drafter.safetensors"
    store(ours, path, loaded.hash, corpus="none", steps="0")
    back = restore(path, loaded).model
    same(back, ours, tolerance=0.02)
    assert path.stat().st_size < 0.4 * sum(4 * p.numel() for p in ours.parameters())
    drafter = {DFlash: DFlashDrafter, DSpark: DSparkDrafter}[kind]
    agreed = []
    for before, after in zip(*(drafts(drafter(n, LM(loaded.model)), loaded) for n in (ours, back)), strict=True):
        agreed += (before.logits.argmax(-1) == after.logits.argmax(-1)).tolist()
        torch.testing.assert_close(after.logits[0], before.logits[0], atol=0.05, rtol=0.05)
    assert sum(agreed) / len(agreed) > 0.9


def drafts(drafter, loaded):
    steps = list(Engine(LM(loaded.model), drafter).generate(PROMPT, Sampling(max_new=30)))
    assert steps[-1].sequence.output == argmax_oracle(30, model=tiny(layers=6, dtype=torch.float32))
    return [s.proposal for s in steps if len(s.proposal)]


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "drafter.safetensors"
    store(net(), path, "abc")
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(LoadError, match="damaged"):
        restore(path, target())
