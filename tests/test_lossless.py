"""Losslessness as a distribution: joint law of four tokens by enumeration, chi-square over seeded sequences in a batch.

Every method and lossless rule must pass (p > 0.001, so one honest test in a thousand would fail; the seeds are fixed and
these do not), and every wrong rule must fail by far (p < 1e-6): a test that cannot fail proves nothing.
"""

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
import torch
from toys import PROMPT, TreeDrafter, chi_square_p, dspark, exact_joint, few, run_all, tiny
from toys import engine as build

import engine.engine
from engine import LM, Sampling
from engine.cache import SlabCache
from engine.drafters.lm import ModelDrafter
from engine.types import Proposal
from engine.verify import RULES, Rule

VOCAB, N = 5, 800
SETTINGS = {"T=1": {"temperature": 1.0}, "T=1 top-p": {"temperature": 1.0, "top_p": 0.8}, "T=0.4": {"temperature": 0.4}}
ALL = (0, 4)  # the joint law of four tokens
LATE = (4, 6)  # of the fifth and sixth: several rounds in, where a spoilt cache shows


@cache
def law(setting, look):
    seen = Counter()
    for tokens, p in exact_joint(look[1], Sampling(**SETTINGS[setting]), VOCAB).items():
        seen[tokens[slice(*look)]] += p
    return seen


def p_value(name, rule="exact", setting="T=1", k=2, look=ALL, n=N, prepare=lambda e: None):
    e = build(name, rows=200, k=k, vocab=VOCAB)
    e.rule = RULES[rule] if isinstance(rule, str) else rule
    prepare(e)
    requests = [(PROMPT, Sampling(max_new=look[1], seed=9000 + i, **SETTINGS[setting])) for i in range(n)]
    return chi_square_p(Counter(tuple(out[slice(*look)]) for out in run_all(e, requests)), law(setting, look), n)


BLOCKS = ["dflash", "dflash sampled", "dflash few", "dspark", "dspark few", "dspark short"]


@pytest.mark.parametrize("name", ["plain", "ngram", "lm", "lm few", "self", "tree", "siblings", *BLOCKS])
def test_exact_follows_the_targets_law(name):
    assert p_value(name) > 1e-3


@pytest.mark.parametrize("name", ["plain", "ngram", "lm", "tree", *BLOCKS])
def test_exact_follows_it_with_top_p(name):
    assert p_value(name, setting="T=1 top-p") > 1e-3


@pytest.mark.parametrize("name,setting", [("ngram", "T=1"), ("lm", "T=1"), ("lm", "T=1 top-p"), ("tree", "T=1")])
def test_match_follows_it(name, setting):
    assert p_value(name, "match", setting) > 1e-3


def with_dspark(**rest):
    def prepare(e):
        e.drafter = dspark(200, 2, VOCAB, **rest)

    return prepare


HEADS = {"markov": False}, {"confidence": False, "threshold": 0.45}, {"threshold": 0.5}


@pytest.mark.parametrize("heads", [*HEADS, {"markov_kind": "gated"}, {"markov_kind": "rnn", "threshold": 0.5}])
def test_e13_dspark_follows_it_with_any_heads_on_or_off(heads):
    assert p_value("dspark", prepare=with_dspark(**{"markov_kind": "vanilla"} | heads)) > 1e-3


@pytest.mark.parametrize("name", BLOCKS)
def test_block_drafters_follow_it_in_later_rounds(name):
    assert p_value(name, k=4, look=LATE) > 1e-3


@pytest.mark.parametrize("settings", [{"setting": "T=0.4"}, {"rule": "match"}])
def test_dspark_follows_it_at_other_temperatures_and_by_matching(settings):
    assert p_value("dspark", **settings) > 1e-3


def good_tree(e):
    """A tree that the target itself grew: long paths are accepted, many of them past a sibling."""
    e.drafter = TreeDrafter(LM(tiny(0, VOCAB)), (2, 2))


LONGER = {"k": 4}, {"setting": "T=0.4"}, {"look": LATE, "n": 2000, "prepare": good_tree}


@pytest.mark.parametrize("settings", LONGER)
def test_longer_drafts_other_temperatures_and_later_rounds_follow_it(settings):
    assert p_value("lm", **settings) > 1e-3


# ---- negative controls


def test_control_resampling_from_p_fails():
    assert p_value("lm", Rule("resample from p", False, RULES["exact"].chance, lambda p, q: p)) < 1e-6


@pytest.mark.parametrize("rule", ["tolerance", "typical"])
def test_control_lossy_rules_fail(rule):
    assert p_value("lm", rule) < 1e-6


class Disguised:
    """Draws honestly, then tells the verifier another token, another q or less than was drawn."""

    def __init__(self, drafter, lie):
        self.taps, self.observe, self.drafter, self.lie = drafter.taps, drafter.observe, drafter, lie
        self.passes = 0

    def propose(self, sequences):
        return [self.lie(p) if len(p) else p for p in self.drafter.propose(sequences)]


def lying(lie, build=lambda: ModelDrafter(LM(tiny(1, VOCAB), 200), 1)):
    def prepare(e):
        e.drafter = Disguised(build(), lie)

    return prepare


def test_control_a_small_vocabulary_told_as_a_whole_one_fails():
    """Some ids are never drawn, but q is told as if they were: the residual then takes from the wrong tokens."""

    def lie(p):
        return replace(p, q=p.logits.nan_to_num(neginf=float(p.logits[p.logits.isfinite()].max())).softmax(-1))

    assert p_value("dspark few", prepare=lying(lie, lambda: dspark(200, 2, VOCAB, words=few(VOCAB)))) < 1e-6


def test_e12_control_argmax_draft_with_soft_q_fails():
    assert p_value("lm", prepare=lying(lambda p: Proposal(p.q.argmax(-1), p.parents, p.q, p.logits))) < 1e-6


def test_control_q_that_was_not_warped_fails():
    lie = lying(lambda p: Proposal(p.tokens, p.parents, p.logits.softmax(-1), p.logits))
    assert p_value("lm", setting="T=0.4", prepare=lie) < 1e-6


def test_control_one_u_for_draw_and_test_fails(monkeypatch):
    monkeypatch.setattr(engine.engine, "ACCEPT", engine.engine.uniforms.__globals__["DRAFT"])
    assert p_value("lm") < 1e-6


def test_control_verify_row_off_by_one_fails(monkeypatch):
    honest = engine.engine.Engine._judge
    shifted = lambda self, s, p, logits, rows: honest(self, s, p, logits.roll(-1, 0), rows)  # noqa: E731
    monkeypatch.setattr(engine.engine.Engine, "_judge", shifted)
    assert p_value("lm") < 1e-6


def test_control_skipping_the_compaction_of_a_tree_path_fails(monkeypatch):
    def forgetful(self, row, kept):
        self.length[row] += len(kept)

    monkeypatch.setattr(SlabCache, "commit", forgetful)
    assert p_value("lm", **LONGER[2]) < 1e-6


def test_control_a_markov_chain_of_draws_told_as_independent_fails():
    lie = lying(lambda p: replace(p, q=p.base.softmax(-1)), lambda: dspark(200, 2, VOCAB))
    assert p_value("dspark", prepare=lie) < 1e-6


@torch.inference_mode()
def torn():
    """Draws the target's two likeliest tokens with chances 0.55 and 0.45, whatever the text."""
    drafter = dspark(200, 2, VOCAB)
    bias = drafter.net.markov_head.markov_w2.weight  # [token, token before]
    best = bias.topk(2, 0).indices
    bias.fill_(-40).scatter_(
        0, best, torch.tensor([0.2, 0.0], dtype=bias.dtype, device=bias.device)[:, None].expand_as(best)
    )
    drafter.net.norm.weight.zero_()
    return drafter


def cut(sure):
    """Ends a proposal before the first node of which sure(proposal) [n] is false."""

    def lie(p):
        n = int(sure(p).long().cumprod(0).sum())
        return replace(p, tokens=p.tokens[:n], parents=p.parents[:n], q=p.q[:n])

    return lie


def test_a_threshold_on_the_law_before_the_draw_follows_it():
    assert p_value("dspark", prepare=lying(cut(lambda p: p.q.amax(-1) > 0.5), torn)) > 1e-3


def test_control_a_threshold_on_the_drawn_tokens_own_probability_fails():
    own = lambda p: p.q.gather(1, p.tokens[:, None])[:, 0]  # noqa: E731
    assert p_value("dspark", prepare=lying(cut(lambda p: own(p) > 0.5), torn)) < 1e-6


def test_control_dropping_a_token_for_its_own_value_fails():
    """p = (.5, .5), q = (.9, .1): hide the draft whenever token 1 was drawn, and the output becomes (.55, .45)."""
    p, q = torch.tensor([0.5, 0.5]), torch.tensor([0.9, 0.1])
    honest = q * torch.minimum(p / q, torch.ones(2))
    kept = torch.stack([honest[0], torch.zeros(())])
    after_refusal = (q[0] - honest[0]) * torch.tensor([0.0, 1.0])
    torch.testing.assert_close(kept + after_refusal + q[1] * p, torch.tensor([0.55, 0.45]))
