"""The slab and the forward over it: ragged batches, trees, windows, taps, against stock transformers."""

import itertools

import pytest
import torch
from toys import DEVICE, PROMPT, tiny

from engine import LM
from engine.cache import SlabCache


def ids(*tokens):
    return torch.tensor(tokens, dtype=torch.long, device=DEVICE)


@torch.inference_mode()
def stock(model, tokens):
    """Logits of the last token, one full forward, stock attention."""
    return model(torch.tensor([tokens], device=DEVICE)).logits[0, -1]


def settle(lm, prompt=PROMPT):
    row = lm.cache.acquire()
    lm.forward([row], [ids(*prompt)])
    lm.cache.commit(row, list(range(len(prompt))))
    return row


TREE = ids(4, 5, 6, 7, 8), ids(-1, -1, 0, 0, 1)
PATHS = [[4], [5], [4, 6], [4, 7], [5, 8]]


def test_a_tree_forward_equals_one_forward_per_path():
    lm = LM(tiny())
    logits = lm.forward([settle(lm)], [TREE[0]], [TREE[1]]).logits[0]
    for got, path in zip(logits, PATHS, strict=True):
        torch.testing.assert_close(got, stock(tiny(), PROMPT + path))


def test_the_order_of_siblings_does_not_matter():
    lm = LM(tiny())
    row = settle(lm)
    one = lm.forward([row], [ids(4, 5, 6)], [ids(-1, -1, 0)]).logits[0]
    other = lm.forward([row], [ids(5, 4, 6)], [ids(-1, -1, 1)]).logits[0]
    torch.testing.assert_close(one[[0, 1, 2]], other[[1, 0, 2]])


def test_e57_a_ragged_batch_equals_each_row_alone():
    prompts = [PROMPT, [4], [5, 6, 7, 8, 9, 10, 1, 2, 3] * 4]
    lm = LM(tiny(), rows=3)
    rows = [lm.cache.acquire() for _ in prompts]
    out = lm.forward(rows, [ids(*p) for p in prompts], read="last").logits[:, 0]
    for row, prompt, got in zip(rows, prompts, out, strict=True):
        lm.cache.commit(row, list(range(len(prompt))))
        torch.testing.assert_close(got, stock(tiny(), prompt))
    out = lm.forward(rows[::-1], [ids(3), ids(4, 5), TREE[0]], [None, None, TREE[1]]).logits
    torch.testing.assert_close(out[0, 0], stock(tiny(), prompts[2] + [3]))
    torch.testing.assert_close(out[1, 1], stock(tiny(), prompts[1] + [4, 5]))
    torch.testing.assert_close(out[2, 4], stock(tiny(), prompts[0] + [5, 8]))


def test_an_accepted_path_is_compacted():
    lm = LM(tiny())
    row = settle(lm)
    lm.forward([row], [TREE[0]], [TREE[1]])
    lm.cache.commit(row, [1, 4])  # the path 5, 8
    assert lm.cache.length[row] == len(PROMPT) + 2
    torch.testing.assert_close(lm.forward([row], [ids(3)]).logits[0, 0], stock(tiny(), PROMPT + [5, 8, 3]))


def test_e33_stale_slots_are_never_seen():
    """Whatever lies behind the committed prefix, garbage included, changes nothing."""
    lm = LM(tiny())
    row = settle(lm)
    clean = lm.forward([row], [ids(4, 5)]).logits
    with torch.inference_mode():
        for slab in itertools.chain(*lm.cache.layers.values()):
            slab[:, :, lm.cache.length[row] + 2 :] = 1e4
    assert torch.equal(lm.forward([row], [ids(4, 5)]).logits, clean)


def test_the_slab_grows_without_losing_anything():
    lm = LM(tiny(max_position_embeddings=4096))
    lm.cache = SlabCache(1, slots=4)
    row = settle(lm)
    torch.testing.assert_close(lm.forward([row], [ids(4)]).logits[0, 0], stock(tiny(), PROMPT + [4]))
    assert lm.cache.slots == 8


@pytest.mark.parametrize("kind", ["qwen3", "mistral"])
def test_e31_sliding_windows_are_a_narrower_mask(kind):
    """Two windows passed, a rejection right behind one: every logit equals the stock model's."""
    if kind == "qwen3":
        window = dict(use_sliding_window=True, sliding_window=8, layer_types=["sliding_attention", "full_attention"])
        build = lambda: tiny(3, **window)  # noqa: E731
    else:
        build = mistral
    lm, prompt = LM(build()), [1, 2, 3, 4, 5, 6]
    row = settle(lm, prompt)
    for token in (7, 8, 9, 10, 1, 2, 3, 4, 5, 6, 7, 8):
        lm.forward([row], [ids(token, 3, 4, 5)])  # a draft of three, all rejected
        lm.cache.commit(row, [0])
        prompt = prompt + [token]
        torch.testing.assert_close(lm.forward([row], [ids(5)]).logits[0, 0], stock(build(), prompt + [5]))
    tree = lm.forward([row], [TREE[0]], [TREE[1]]).logits[0]
    for got, path in zip(tree, PATHS, strict=True):
        torch.testing.assert_close(got, stock(build(), prompt + path))


def mistral():
    from transformers import MistralConfig, MistralForCausalLM

    torch.manual_seed(5)
    config = MistralConfig(
        vocab_size=11, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, sliding_window=8, initializer_range=0.35,
    )  # fmt: skip
    return MistralForCausalLM(config).to(DEVICE, torch.float64)


def test_e42_taps_are_the_raw_outputs_of_the_layers_named():
    model, seen = tiny(), {}
    for i, layer in enumerate(model.model.layers):
        layer.register_forward_hook(lambda _m, _a, out, i=i: seen.__setitem__(i, out))
    lm = LM(model)
    features = lm.forward([settle(lm)], [ids(4, 5)], taps=(1, 0)).features
    assert torch.equal(features, torch.cat([seen[1], seen[0]], -1))
    assert not any(len(layer._forward_hooks) > 1 for layer in model.model.layers)


def test_only_the_rows_that_are_read_meet_the_head():
    lm = LM(tiny())
    row = settle(lm)
    assert lm.forward([row], [ids(4, 5, 6)], read="last").logits.shape == (1, 1, 11)
    assert lm.forward([row], [ids(4, 5, 6)], read="none").logits.shape == (1, 0, 11)


@pytest.mark.parametrize("name", ["Gemma2", "GptOss"])
def test_attention_with_extras_is_refused_not_ignored(name):
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(
        vocab_size=11, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, num_local_experts=2, num_experts_per_tok=1, attn_logit_softcapping=5.0,
    )  # fmt: skip
    lm = LM(getattr(transformers, f"{name}ForCausalLM")(config))
    with pytest.raises(ValueError, match="softcap|s_aux"):
        lm.forward([lm.cache.acquire()], [torch.tensor(PROMPT)])
