"""DFlash: parity with recorded outputs of the reference, a closed-form model pair, and the properties of the block."""

import math

import golden
import pytest
import torch
from safetensors.torch import load_file
from toys import DEVICE, PROMPT, argmax_oracle, block_net, tiny
from transformers import Qwen3Config, Qwen3ForCausalLM

from engine import LM, Engine, Sampling
from engine.checkpoints import zlab
from engine.drafters.block import BlockConfig, spread
from engine.drafters.dflash import DFlash, DFlashDrafter
from engine.drafters.lesson import Batch, choose_anchors, fading, lesson


def close(found, expected, tolerance=1e-5):
    expected = torch.as_tensor(expected, dtype=found.dtype, device=found.device)
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=0)


# ---- recorded runs


@pytest.fixture(scope="module")
def recorded():
    return golden.read("dflash")


def pair(recorded):
    net = zlab(recorded["draft_config"])
    net.load_state_dict(load_file(golden.folder("dflash") / "draft.safetensors"))
    target = LM(golden.target("dflash", recorded["target_config"]))
    return target, DFlashDrafter(net.to(DEVICE), target)


@pytest.mark.parametrize("case", range(6))
def test_the_first_round_equals_the_reference(recorded, case):
    target, drafter = pair(recorded)
    prompt, first = recorded["cases"][case]["prompt"], recorded["cases"][case]["first_cycle"]
    seen, hidden = [], []
    watch, run_block = drafter.observe, drafter._hidden
    drafter.observe = lambda batch, features: (seen.append(features[0]), watch(batch, features))
    drafter._hidden = lambda batch: hidden.append(run_block(batch)) or hidden[-1]
    rounds = Engine(target, drafter).generate(prompt, Sampling(max_new=40))
    next(rounds)
    length = len(prompt)
    assert list(first["target_hidden"]["shape"]) == [1, *seen[0].shape]
    close(seen[0][-1], first["target_hidden"]["row_last"])
    net = drafter.net
    with torch.inference_mode():
        close(net.hidden_norm(net.fc(seen[0]))[-1], first["ctx_after_fc_norm_row_last"])
    assert drafter.slab.length[0] == length
    step = next(rounds)
    keys, values = drafter.slab.layers[0][0], drafter.slab.layers[1][1]
    close(keys[0, 0, 0], first["k_cache_l0_head0_pos0"])
    close(values[0, 1, 4], first["v_cache_l1_head1_pos4"])
    close(hidden[0][0, 0], first["draft_hidden_row1"])
    close(hidden[0][0, 6], first["draft_hidden_row7"])
    close(step.proposal.logits[0], first["draft_logits_row1"])


@pytest.mark.parametrize("case", range(6))
def test_the_anchors_slot_equals_the_reference(recorded, case):
    target, drafter = pair(recorded)
    prompt, first = recorded["cases"][case]["prompt"], recorded["cases"][case]["first_cycle"]
    drafter.net.guesses = lambda hidden: hidden
    rounds = Engine(target, drafter).generate(prompt, Sampling(max_new=40))
    with torch.inference_mode():
        sequence = next(rounds).sequence
        hidden = drafter._hidden([sequence])
    close(hidden[0, 0], first["draft_hidden_row0"])
    close(drafter.slab.layers[0][0][0, 0, len(prompt)], first["k_cache_l0_head0_pos_anchor"])


@pytest.mark.parametrize("case", range(6))
def test_e48_every_round_equals_the_reference(recorded, case):
    """Anchor, block, the target's answers and what was accepted; the reference runs on a little beyond 40 tokens."""
    told = recorded["cases"][case]
    target, drafter = pair(recorded)
    rows, watch = [], drafter.observe
    drafter.observe = lambda batch, features: (rows.append(len(features[0])), watch(batch, features))
    steps = list(Engine(target, drafter).generate(told["prompt"], Sampling(max_new=60)))
    assert (
        steps[-1].sequence.tokens[:45]
        == told["output"]
        == told["prompt"] + argmax_oracle(40, told["prompt"], plain(recorded))
    )
    before = [told["prompt"][-1], steps[0].tokens[-1]]
    for cycle, step, new_rows in zip(told["cycles"], steps[1:], rows, strict=False):
        assert step.start - 1 == cycle["start"] and new_rows == cycle["new_ctx_rows"]
        assert [before[-1], *step.proposal.tokens.tolist()] == cycle["block"]
        assert step.logits.argmax(-1).tolist() == cycle["posterior"]
        assert len(step.tokens) - 1 == cycle["accepted"]
        before = step.tokens


def plain(recorded):
    return golden.target("dflash", recorded["target_config"])


# ---- a pair that any language can build: every weight is a sine of its place


def sines(model, salt):
    state = model.state_dict()
    for t, name in enumerate(sorted(state)):
        flat = torch.arange(1, state[name].numel() + 1, dtype=torch.float64)
        wave = torch.sin(12.9898 * flat + 78.233 * (t + 1) + salt).view_as(state[name])
        state[name] = 1 + 0.1 * wave if wave.dim() == 1 else 0.25 * wave
    return model.double().load_state_dict(state, strict=True) and model.to(DEVICE).requires_grad_(False)


SINES = dict(
    vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=6, num_attention_heads=4,
    num_key_value_heads=2, head_dim=8, max_position_embeddings=128, rms_norm_eps=1e-6, tie_word_embeddings=False,
)  # fmt: skip


def sine_pair(k=None):
    target = LM(sines(Qwen3ForCausalLM(Qwen3Config(**SINES)), 0.0))
    config = BlockConfig(32, 64, 2, 4, 2, 8, 64, 6, (1, 2, 3), 4, 63, False, context=128)
    return target, DFlashDrafter(sines(DFlash(config), 0.5), target, k)


def test_the_closed_form_pair_gives_the_known_numbers():
    target, drafter = sine_pair()
    hidden, run_block = [], drafter._hidden
    drafter._hidden = lambda batch: hidden.append(run_block(batch)) or hidden[-1]
    steps = list(Engine(target, drafter).generate([5, 9, 12, 33, 7], Sampling(max_new=24)))
    close(steps[0].logits[0, :4], [0.131989, -0.231720, -0.388836, -0.199283])
    close(hidden[0][0, 0, :4], [-1.001410, -1.435776, 0.883754, 0.065273])
    close(hidden[0][0, 2, :4], [-1.252398, -1.622077, 0.786180, 0.351042])
    close(hidden[0][0].sum(-1), [-0.523863, -0.567558, -0.631952])
    close(steps[1].proposal.logits[0, :4], [-0.469996, 0.372859, 0.883289, 0.606215])
    cycles = [
        (s.start - 1, s.proposal.tokens.tolist(), s.logits.argmax(-1).tolist(), len(s.tokens) - 1) for s in steps[1:4]
    ]
    assert cycles == [
        (5, [15, 15, 15], [15, 63, 63, 12], 1),
        (7, [15, 15, 15], [28, 12, 12, 12], 0),
        (8, [34, 15, 15], [44, 12, 12, 63], 0),
    ]


def test_the_masks_id_is_an_ordinary_token_when_the_target_writes_it():
    target, drafter = sine_pair()
    output = list(Engine(target, drafter).generate([5, 9, 12, 33, 7], Sampling(max_new=24)))[-1].sequence.output
    assert output == [18, 15, 63, 28, 44, 60, 44, 60, 44, 60, 44, 9, 25, 9, 25, 9, 25, 41, 25, 41, 25, 41, 25, 41]
    assert drafter.net.config.mask == 63


# ---- properties


@pytest.mark.parametrize("block", [2, 3, 4, 7, 16])
@pytest.mark.parametrize("sampled", [False, True])
def test_any_block_writes_what_plain_decoding_writes(block, sampled):
    target = LM(tiny())
    drafter = DFlashDrafter(block_net(block=block), target, sampled=sampled)
    steps = list(Engine(target, drafter).generate(PROMPT, Sampling(max_new=30)))
    assert steps[-1].sequence.output == argmax_oracle(30)
    assert len(steps[1].proposal) == block - 1


def lecture(seed=0, batch=2, length=17):
    """Random tokens [batch, length] and the features that `tiny()` has for them."""
    target = LM(tiny(), batch)
    tokens = torch.randint(11, (batch, length), generator=torch.Generator().manual_seed(seed)).to(DEVICE)
    features = target.forward(list(range(batch)), list(tokens), taps=(0, 1)).features
    return target, tokens, features.clone()


@pytest.mark.parametrize("anchor_guesses", [False, True])
def test_e45_e46_a_block_in_training_is_the_block_when_drafting(anchor_guesses):
    """Same hidden states for every anchor of a text, near its start or far from it, whatever else is in the batch."""
    target, tokens, features = lecture(length=60)
    net = block_net(anchor_guesses=anchor_guesses)
    anchors = torch.tensor([[3, 4, 9, 40, 58], [0, 2, 30, 31, 50]], device=DEVICE)
    taught = net.over_text(target.model.get_input_embeddings(), Batch(tokens, tokens >= 0, features, anchors=anchors))
    for b, row in enumerate(anchors.tolist()):
        for i, anchor in enumerate(row):
            close(taught[b, i], drafted(net, target, tokens[b], features[b], anchor), 1e-12)


@torch.inference_mode()
def drafted(net, target, tokens, features, anchor, portions=3):
    """Hidden states of the block at `anchor`, its context observed in portions."""
    drafter = DFlashDrafter(net, target)
    sequence = Engine(target, drafter).submit(tokens[: anchor + 1].tolist(), Sampling())
    sequence.row = 0
    for part in features[:anchor].tensor_split(portions):
        drafter.observe([sequence], [part])
    return drafter._hidden([sequence])[0]


def test_context_comes_in_any_portions():
    target, tokens, features = lecture()
    net = block_net()
    whole = drafted(net, target, tokens[0], features[0], 12, portions=1)
    close(drafted(net, target, tokens[0], features[0], 12, portions=12), whole, 1e-12)


def test_a_block_sees_nothing_from_its_anchor_on_and_no_other_block():
    target, tokens, features = lecture()
    net, embed = block_net(), target.model.get_input_embeddings()
    anchors = torch.tensor([[3, 7, 9]] * 2, device=DEVICE)
    before = net.over_text(embed, Batch(tokens, tokens >= 0, features, anchors=anchors))
    changed = features.clone()
    changed[:, 7:] += 1
    after = net.over_text(embed, Batch(tokens, tokens >= 0, changed, anchors=anchors))
    close(after[:, :2], before[:, :2], 1e-12)
    assert (after[:, 2] - before[:, 2]).abs().max() > 1e-3
    close(net.over_text(embed, Batch(tokens, tokens >= 0, features, anchors=anchors.flip(1))).flip(1), before, 1e-12)


def test_every_slot_sees_every_slot():
    target, tokens, features = lecture()
    net, table = block_net(anchor_guesses=True), target.model.get_input_embeddings().weight

    def embed(ids, nudged=None):
        x = table[ids]
        return x if nudged is None else x + torch.nn.functional.one_hot(torch.tensor(nudged), 4).to(x)[None, :, None]

    anchors = torch.full((2, 1), 5, device=DEVICE)
    plain_ = net.over_text(embed, Batch(tokens, tokens >= 0, features, anchors=anchors))
    for slot in range(4):
        nudged = net.over_text(
            lambda ids, slot=slot: embed(ids, slot), Batch(tokens, tokens >= 0, features, anchors=anchors)
        )
        assert ((nudged - plain_).abs().amax(-1) > 1e-4).all()


def test_e34_e42_the_context_comes_from_the_targets_raw_layers_never_from_a_guess():
    target, model = LM(tiny()), tiny()
    drafter = DFlashDrafter(block_net(), target)
    for step in Engine(target, drafter).generate(PROMPT, Sampling(temperature=1.0, max_new=20, seed=3)):
        length = len(step.sequence.tokens) - 1
        assert drafter.slab.length[0] == length
        features = torch.cat(raw_outputs(model, step.sequence.tokens[:-1]), -1)
        with torch.inference_mode():
            context = drafter.net.context(features, torch.arange(length, device=DEVICE)[None])
        for layer, keys_values in enumerate(context):
            for slab, expected in zip(drafter.slab.layers[layer], keys_values, strict=True):
                close(slab[:1, :, :length], expected, 1e-10)


@torch.inference_mode()
def raw_outputs(model, tokens):
    """What every decoder layer hands to the next one, [1, length, hidden] each."""
    seen = []
    handles = [layer.register_forward_hook(lambda _m, _i, out: seen.append(out)) for layer in model.model.layers]
    model(torch.tensor([tokens], device=DEVICE))
    for handle in handles:
        handle.remove()
    return seen


def test_e41_e42_taps_are_spread_by_the_papers_rule():
    assert spread(36, 5) == (1, 9, 17, 25, 33) and spread(32, 5) == (1, 8, 15, 22, 29)
    assert spread(62, 5) == (1, 16, 30, 44, 59)  # 15.5 and 44.5 round to even
    assert spread(52, 5) == (1, 13, 25, 37, 49) and spread(36, 3) == (1, 17, 33) and spread(30, 1) == (15,)


def test_e13_an_argmax_draft_at_any_temperature_is_told_as_a_point_mass():
    target = LM(tiny())
    for sampled in (False, True):
        drafter = DFlashDrafter(block_net(), target, sampled=sampled)
        steps = list(Engine(target, drafter).generate(PROMPT, Sampling(temperature=1.0, max_new=20)))
        drafts = [s.proposal for s in steps if len(s.proposal)]
        assert all((p.q is not None) == sampled for p in drafts)
        greedy = [p.tokens.tolist() == p.logits.argmax(-1).tolist() for p in drafts]
        assert all(greedy) != sampled


def test_the_drafter_stops_at_the_end_of_its_positions_and_says_so():
    target = LM(tiny())
    drafter = DFlashDrafter(block_net(context=12), target)
    steps = list(Engine(target, drafter).generate(PROMPT, Sampling(max_new=30)))
    assert steps[-1].sequence.output == argmax_oracle(30)
    assert {s.proposal.note for s in steps[1:-1] if not len(s.proposal)} == {"draft_context"}


def test_a_block_longer_than_it_was_trained_for_is_refused():
    with pytest.raises(ValueError, match="1 to 3 tokens"):
        DFlashDrafter(block_net(), LM(tiny()), k=4)


def test_a_smaller_k_sends_the_first_tokens_of_the_same_block():
    """Slots see each other, so a narrower block would be another guess: k cuts, it does not narrow."""
    first = {}
    for k in (1, 2, 3):
        target = LM(tiny())
        steps = list(Engine(target, DFlashDrafter(block_net(), target, k=k)).generate(PROMPT, Sampling(max_new=20)))
        assert steps[-1].sequence.output == argmax_oracle(20)
        first[k] = steps[1].proposal.tokens.tolist()
    assert first[1] == first[3][:1] and first[2] == first[3][:2]


def test_e46_a_tied_target_lends_its_real_output_matrix():
    target = LM(tiny(tie_word_embeddings=True))
    drafter = DFlashDrafter(block_net(), target)
    assert drafter.head.weight is target.model.get_input_embeddings().weight


# ---- the lesson


def test_anchors_and_their_successors_are_the_models_own_words():
    own = torch.tensor([[0, 0, 1, 1, 1, 0, 1, 0, 1, 1], [0] * 10]).bool()
    for seed in range(5):
        anchors = choose_anchors(own, 2, torch.Generator().manual_seed(seed))
        assert set(anchors[0].tolist()) <= {2, 3, 8} and anchors[0, 0] < anchors[0, 1]
        assert anchors[1].tolist() == [-1, -1]
    assert choose_anchors(own, 5)[0].tolist() == [-1, -1, 2, 3, 8]


def test_a_block_is_taught_up_to_the_first_foreign_token():
    tokens = torch.arange(10)[None]
    own = torch.tensor([[0, 0, 1, 1, 1, 0, 1, 0, 1, 1]]).bool()
    labels, taught = lesson(Batch(tokens, own, anchors=torch.tensor([[-1, 2, 8]])), 3)
    assert labels[0, 1:].tolist() == [[3, 4, 5], [9, 9, 9]]
    assert taught[0].int().tolist() == [[0, 0, 0], [1, 1, 0], [1, 0, 0]]
    weights = fading(torch.ones(1, 1, 15, dtype=torch.bool), 7.0)[0, 0]
    close(weights[[0, 7, 14]], [1.0, math.exp(-1), math.exp(-2)], 1e-6)


def test_the_loss_is_the_weighted_cross_entropy_and_learning_lowers_it():
    target, tokens, features = lecture()
    net = block_net()
    embed, head = target.model.get_input_embeddings(), target.model.get_output_embeddings()
    own, anchors = torch.ones_like(tokens, dtype=torch.bool), torch.tensor([[3, 9], [-1, 15]], device=DEVICE)
    loss = net.loss(embed, head, Batch(tokens, own, features, anchors=anchors), decay=2.0)["loss"]
    total = norm = 0.0
    with torch.no_grad():
        law = head(net.over_text(embed, Batch(tokens, tokens >= 0, features, anchors=anchors))).log_softmax(-1)
    for b, i, anchor, drafts in ((0, 0, 3, 3), (0, 1, 9, 3), (1, 1, 15, 1)):
        for j in range(drafts):
            weight = math.exp(-j / 2)
            total -= weight * float(law[b, i, j, tokens[b, anchor + 1 + j]])
            norm += weight
    assert float(loss.detach()) == pytest.approx(total / norm, rel=1e-5)
    learner = torch.optim.AdamW(net.parameters(), 3e-3)
    for _ in range(30):
        learner.zero_grad()
        now = net.loss(embed, head, Batch(tokens, own, features, anchors=anchors))["loss"]
        now.backward()
        learner.step()
    assert float(now.detach()) < 0.5 * float(loss.detach())
