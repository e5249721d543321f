"""DSpark: parity with recorded outputs of the reference for its three Markov heads, the loss, and the heads' switches."""

import json

import golden
import pytest
import torch
from safetensors.torch import load_file
from toys import DEVICE, PROMPT, argmax_oracle, block_net, dflash, dspark, tiny

from engine import LM, Engine, Sampling
from engine.checkpoints import deepspec
from engine.drafters.dflash import DFlashDrafter
from engine.drafters.dspark import DSpark, DSparkDrafter
from engine.drafters.lesson import Batch, choose_anchors, lesson
from engine.types import Proposal
from engine.verify import verify

HEADS = ("vanilla", "gated", "rnn")
TERMS = {  # weighted means of the loss terms; gradient norms of fc, norm and markov_w1 with the confidence head detached
    "vanilla": ((14.17293, 1.55037, 0.76258), (0.34776, 0.13283, 0.10020)),
    "gated": ((9.87810, 1.57132, 0.82256), (0.40147, 0.18738, 0.05782)),
    "rnn": ((6.10718, 1.39695, 0.64248), (0.61070, 0.29087, 0.04791)),
}


def close(found, expected, tolerance=1e-5):
    torch.testing.assert_close(
        found, torch.as_tensor(expected, dtype=found.dtype, device=found.device), atol=tolerance, rtol=0
    )


def pair(head, **rest):
    root = golden.folder("dspark")
    net = deepspec(json.loads((root / f"draft_{head}" / "config.json").read_text()))
    weights = load_file(root / f"draft_{head}" / "model.safetensors")
    target = LM(golden.target("dspark", golden.read("dspark", "target_config.json")))
    assert torch.equal(weights.pop("lm_head.weight"), target.model.lm_head.weight.cpu())
    assert torch.equal(weights.pop("embed_tokens.weight"), target.model.model.embed_tokens.weight.cpu())
    net.load_state_dict(weights)
    return target, DSparkDrafter(net.to(DEVICE), target, **rest)


@pytest.fixture(scope="module")
def tensors():
    return load_file(golden.folder("dspark") / "golden.safetensors")


@pytest.fixture(scope="module")
def told():
    return golden.read("dspark")


@pytest.mark.parametrize("head", HEADS)
def test_the_first_round_equals_the_reference(told, tensors, head):
    target, drafter = pair(head)
    seen, hidden = [], []
    watch, run_block = drafter.observe, drafter._hidden
    drafter.observe = lambda batch, features: (seen.append(features[0]), watch(batch, features))
    drafter._hidden = lambda batch: hidden.append(run_block(batch)) or hidden[-1]
    rounds = Engine(target, drafter).generate(told["prompt"], Sampling(max_new=40))
    first = next(rounds)
    close(first.logits[0], tensors["target.logits"][0, -1])
    close(seen[0], tensors["ctx"][0])
    assert first.tokens == [told[head]["anchor"]]
    proposal = next(rounds).proposal
    close(hidden[0], tensors[f"{head}.block_hidden"])
    close(proposal.base, tensors[f"{head}.base_logits"][0])
    close(proposal.logits, tensors[f"{head}.corrected_logits_greedy"][0])
    close(proposal.confidence, tensors[f"{head}.confidence_logits"][0].sigmoid())
    assert proposal.tokens.tolist() == told[head]["greedy_draft"]
    keys, values = drafter.slab.layers[0]
    close(keys[:, :, :7], tensors[f"{head}.cache_k0"])
    close(values[:, :, :7], tensors[f"{head}.cache_v0"])


@pytest.mark.parametrize("head", HEADS)
def test_the_heads_along_given_tokens_equal_the_reference(tensors, head):
    _, drafter = pair(head)
    hidden, before = tensors[f"{head}.block_hidden"].to(DEVICE), torch.tensor([[42, 17, 3, 44]], device=DEVICE)
    with torch.inference_mode():
        logits = tensors[f"{head}.base_logits"].to(DEVICE) + drafter.net.biases(hidden, before)
        close(logits, tensors[f"{head}.teacher_forced_logits"])
        close(drafter.net.confidence(hidden, before), tensors[f"{head}.teacher_forced_confidence"])


@pytest.mark.parametrize("head", HEADS)
def test_e48_every_round_equals_the_reference(told, head):
    """The recorded run goes on while its 40 tokens are not passed, hence a few tokens further than they reach."""
    target, drafter = pair(head)
    steps = list(Engine(target, drafter).generate(told["prompt"], Sampling(max_new=60)))
    assert steps[-1].sequence.output[:40] == told[head]["greedy_output"] == told["plain_greedy"]
    expected = told[head]["acceptance_lengths"]
    assert [len(s.tokens) for s in steps[1 : 1 + len(expected)]] == expected


@pytest.mark.parametrize("head", HEADS)
def test_a_threshold_cuts_where_the_reference_cuts(told, head):
    target, drafter = pair(head, threshold=0.5)
    steps = list(Engine(target, drafter).generate(told["prompt"], Sampling(max_new=60)))
    expected = told[head]["thr0.5"]
    rounds = steps[1 : 1 + len(expected["proposal_lengths"])]
    assert [len(s.proposal) for s in rounds] == expected["proposal_lengths"]
    assert [len(s.tokens) for s in rounds] == expected["acceptance_lengths"]
    assert steps[-1].sequence.output[:40] == told["plain_greedy"]
    assert all(s.proposal.note == ("" if len(s.proposal) else "low_confidence") for s in rounds)


@pytest.mark.parametrize("head", HEADS)
def test_a_stop_token_inside_a_block_ends_the_text_as_in_the_reference(told, head):
    expected = told[head]["stop"]
    target, drafter = pair(head)
    sampling = Sampling(max_new=60, stop=frozenset([expected["stop_id"]]))
    steps = list(Engine(target, drafter).generate(told["prompt"], sampling))
    assert steps[-1].sequence.output == expected["output"] and steps[-1].done == "stop"
    assert [len(s.tokens) for s in steps[1:]] == expected["acceptance_lengths"]
    assert [len(s.proposal) for s in steps[1:-1]] == expected["proposal_lengths"][:-1]


@pytest.mark.parametrize("case", range(8))
def test_the_acceptance_rule_equals_the_recorded_cases(case):
    told = golden.read("dspark", "verify_cases.json")[case]
    length = told["verify_len"]
    p, q = (torch.tensor(told[name], dtype=torch.float64) for name in ("target_probs", "draft_probs"))
    tokens = torch.tensor(told["draft_tokens"])[:length]
    proposal = Proposal(tokens, torch.arange(-1, length - 1), q[:length])
    verdict = verify(proposal, p[: length + 1], told["uniforms"], lambda depth: 0.5)
    assert len(verdict.path) == told["accepted"]
    close(verdict.law, told["next_token_probs"], 1e-9)


# ---- the lesson


def loss(tensors, head, **rest):
    target, drafter = pair(head)
    net = drafter.net.requires_grad_(True)
    inputs = {
        "tokens": tensors["train.input_ids"], "own": tensors["train.loss_mask"].bool(),
        "features": tensors["train.target_hidden_states"], "last": tensors["train.target_last_hidden_states"],
        "anchors": torch.tensor([[8, 9, 10, 17, 18]]),
    }  # fmt: skip
    inputs = {name: tensor.to(DEVICE) for name, tensor in inputs.items()}
    terms = net.loss(target.model.get_input_embeddings(), target.model.lm_head, Batch(**inputs), **rest)
    terms["loss"].backward()
    return terms, {name: float(p.grad.norm()) for name, p in net.named_parameters()}, net


@pytest.mark.parametrize("head", HEADS)
def test_loss_and_gradients_equal_the_reference(told, tensors, head):
    terms, norms, _ = loss(tensors, head)
    assert float(terms["loss"].detach()) == pytest.approx(told[head]["train_loss"], rel=1e-5)
    for name, expected in zip(("cross_entropy", "distance", "confidence"), TERMS[head][0], strict=True):
        assert float(terms[name].detach()) == pytest.approx(expected, rel=1e-5)
    assert norms.keys() == told[head]["grad_norms"].keys()
    for name, expected in told[head]["grad_norms"].items():
        assert norms[name] == pytest.approx(expected, rel=1e-4), name


@pytest.mark.parametrize("head", HEADS)
def test_a_detached_confidence_head_leaves_the_rest_alone(told, tensors, head):
    _, norms, _ = loss(tensors, head, attached=False)
    for name, expected in zip(("fc", "norm", "markov_head.markov_w1"), TERMS[head][1], strict=True):
        assert norms[f"{name}.weight"] == pytest.approx(expected, rel=1e-4)
    assert norms["confidence_head.proj.weight"] == pytest.approx(
        told[head]["grad_norms"]["confidence_head.proj.weight"], rel=1e-4
    )


@pytest.mark.parametrize("head", HEADS)
def test_what_is_taught_equals_the_reference(tensors, head):
    tokens, own = tensors["train.input_ids"], tensors["train.loss_mask"].bool()
    anchors = choose_anchors(own, 5)
    labels, taught = lesson(Batch(tokens, own, anchors=anchors), 4)
    assert anchors.tolist() == [[8, 9, 10, 17, 18]]
    assert torch.equal(labels, tensors["train.target_ids"]) and torch.equal(taught, tensors["train.eval_mask"].bool())
    target, drafter = pair(head)
    net, lm_head = drafter.net, target.model.lm_head
    known = {
        "tokens": tokens, "own": own, "anchors": anchors, "features": tensors["train.target_hidden_states"],
        "last": tensors["train.target_last_hidden_states"],
    }  # fmt: skip
    batch = Batch(**{name: t.to(DEVICE) for name, t in known.items()})
    with torch.inference_mode():
        hidden = net.over_text(target.model.get_input_embeddings(), batch)
        before = torch.cat([tokens.gather(1, anchors)[..., None], labels[..., :-1]], -1).to(DEVICE)
        close(lm_head(hidden) + net.biases(hidden, before), tensors[f"{head}.train.draft_logits"])
        close(net.confidence(hidden, before), tensors[f"{head}.train.confidence_pred"])
        truth = net._truth(lm_head, batch)
        close(truth, tensors["train.aligned_target_logits"].softmax(-1))


# ---- switches


def proposals(drafter, **sampling):
    target = LM(tiny())
    steps = list(Engine(target, drafter).generate(PROMPT, Sampling(max_new=30, **sampling)))
    return steps, [s.proposal for s in steps if len(s.proposal)]


def test_d9_e47_without_the_markov_head_the_logits_are_the_backbones():
    net = block_net(DSpark, anchor_guesses=True, markov_rank=4)
    for sampled in (False, True):
        settings = {"temperature": 1.0} if sampled else {}
        off, drafts = proposals(DSparkDrafter(net, LM(tiny()), markov=False, confidence=False), **settings)
        same, expected = proposals(DFlashDrafter(net, LM(tiny()), sampled=sampled), **settings)
        assert [s.tokens for s in off] == [s.tokens for s in same]
        assert all(torch.equal(a.logits, b.logits) and a.base is None for a, b in zip(drafts, expected, strict=True))
        assert all(torch.equal(a.confidence, b.confidence) for a, b in zip(drafts, expected, strict=True))


def test_e47_a_head_of_rank_zero_is_no_head():
    net = block_net(DSpark, anchor_guesses=True, markov_rank=0, confidence_reads_token=False)
    assert net.markov_head is None
    steps, drafts = proposals(DSparkDrafter(net, LM(tiny())))
    assert steps[-1].sequence.output == argmax_oracle(30) and all(p.base is None for p in drafts)


@pytest.mark.parametrize("head", HEADS)
def test_the_markov_head_depends_on_the_token_drawn_and_q_is_its_law(head):
    drafter = dspark(1, 4, 11, head)
    _, drafts = proposals(drafter, temperature=1.0)
    for p in drafts:
        torch.testing.assert_close(p.q, p.logits.softmax(-1))
    assert max(float((p.logits - p.base).abs().max()) for p in drafts) > 0.5


def test_confidence_is_known_before_its_token_is_drawn():
    """Two seeds whose first draws differ agree on the first confidence; it follows the token before, not the token."""
    seen = {}
    for seed in range(12):
        drafter = dspark(1, 4, 11)
        target = LM(tiny())
        sequence = Engine(target, drafter).submit(PROMPT, Sampling(temperature=3.0, seed=seed))
        sequence.row = 0
        features = target.forward([0], [torch.tensor(PROMPT[:-1], device=DEVICE)], taps=(0, 1)).features[0]
        drafter.observe([sequence], [features])
        p = drafter.propose([sequence])[0]
        seen.setdefault(tuple(p.tokens[:1].tolist()), []).append(p.confidence.tolist())
    assert len(seen) > 1
    assert len({round(c[0], 12) for group in seen.values() for c in group}) == 1
    assert all(len({round(c[1], 12) for c in group}) == 1 for group in seen.values())
    assert len({round(group[0][1], 12) for group in seen.values()}) == len(seen)


def test_a_threshold_of_one_drafts_nothing_and_writes_the_same():
    steps, drafts = proposals(dspark(1, 4, 11, threshold=1.0))
    assert not drafts and steps[-1].sequence.output == argmax_oracle(30)


def test_impossible_heads_are_refused():
    with pytest.raises(ValueError, match="vanilla, gated, rnn"):
        block_net(DSpark, markov_kind="lstm")
    with pytest.raises(ValueError, match="markov_rank is 0"):
        block_net(DSpark, markov_rank=0)


@pytest.mark.parametrize("build", [dspark, lambda *a, **kw: dflash(*a, sampled=True, **kw)])
def test_e38_padded_ids_are_not_drafted_however_hot(build):
    class Ten:
        size = 10

    for seed in range(5):
        e = Engine(LM(tiny()), build(1, 4, 11, vocabulary=10), vocabulary=Ten())
        steps = list(e.generate(PROMPT, Sampling(temperature=100.0, max_new=20, seed=seed)))
        assert 10 not in steps[-1].sequence.output
        assert all(s.proposal.q.shape[-1] == 10 for s in steps if len(s.proposal))
