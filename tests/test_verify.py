"""The verifier against arithmetic: the law that comes out, token by token."""

import pytest
import torch

from engine.drafters import chain
from engine.types import Proposal
from engine.verify import RULES, Rule, output_law, residual, verify


def vector(*values):
    return torch.tensor(values, dtype=torch.float64)


P, Q = vector(0.40, 0.35, 0.25), vector(0.10, 0.10, 0.80)
EXACT = RULES["exact"]


def close(got, expected, tolerance=1e-12):
    torch.testing.assert_close(got, torch.tensor(expected, dtype=got.dtype), atol=tolerance, rtol=0)


def random_laws(seed, vocab=7):
    p, q = torch.rand(2, vocab, generator=torch.Generator().manual_seed(seed), dtype=torch.double).pow(3)
    return p / p.sum(), q / q.sum()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("rule", ["exact", "match"])
def test_lossless_rules_return_p_exactly(seed, rule):
    p, q = random_laws(seed)
    torch.testing.assert_close(output_law(p, q, RULES[rule]), p, atol=1e-12, rtol=0)
    spike = torch.zeros_like(q).index_fill_(0, q.argmax(), 1.0)
    torch.testing.assert_close(output_law(p, spike, RULES[rule]), p, atol=1e-12, rtol=0)


@pytest.mark.parametrize("rule", ["tolerance", "typical"])
def test_lossy_rules_leave_p_and_say_so(rule):
    assert not RULES[rule].lossless
    assert (output_law(P, Q, RULES[rule]) - P).abs().sum() > 0.01


def test_golden_pair():
    assert float(torch.minimum(P, Q).sum()) == pytest.approx(0.45) == pytest.approx(1 - float((P - Q).abs().sum()) / 2)
    close(residual(P, Q), [0.545454545, 0.454545454, 0], 1e-8)
    close(output_law(P, Q, EXACT), P.tolist())
    close(output_law(P, Q, Rule("resample from p", False, EXACT.chance, lambda p, q: p)), [0.32, 0.2925, 0.3875])
    spike = vector(1.0, 0, 0)
    close(output_law(P, Q, Rule("argmax on refusal", False, EXACT.chance, lambda p, q: spike)), [0.65, 0.10, 0.25])
    close(output_law(P, Q, EXACT, draft=vector(0, 0, 1.0)), [0.375, 0.3125, 0.3125])
    kept = sum(float(q) * RULES["match"].chance(float(p), float(q), P) for p, q in zip(P, Q, strict=True))
    assert kept == pytest.approx(0.275)
    assert sum(float(p) * RULES["match"].chance(float(p), float(p), P) for p in P) == pytest.approx(0.345)


def test_e12_argmax_draft_with_soft_q_is_biased_and_a_spike_is_not():
    p, q = vector(0.5, 0.3, 0.2), vector(0.6, 0.3, 0.1)
    close(output_law(p, q, EXACT, draft=vector(1.0, 0, 0)), [0.833333, 0, 0.166667], 1e-6)
    close(output_law(p, vector(1.0, 0, 0), EXACT), p.tolist())


def test_e04_residual_is_normalised_and_empty_residual_is_p():
    p, q = vector(0.5, 0.3, 0.2), vector(0.6, 0.3, 0.1)
    close(residual(p, q), [0, 0, 1])
    close(residual(p, p), p.tolist())
    close(output_law(p, q, EXACT), p.tolist())


def test_e13_the_match_rule_is_lossless_for_any_draft():
    p, q = vector(0.5, 0.3, 0.2), vector(0.6, 0.3, 0.1)
    for draft in (q, vector(1.0, 0, 0)):
        close(output_law(p, q, RULES["match"], draft=draft), p.tolist())


def law_of_verify(proposal, p, rule=EXACT, steps=20):
    """Law of the first emitted token, over a grid of uniforms: exact where every chance lies on the grid."""
    grid = [(i + 0.5) / steps for i in range(steps)]
    law = torch.zeros_like(p[0])
    for a in grid:
        for b in grid:
            for c in (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95):
                verdict = verify(proposal, p, [a, b], lambda _depth, c=c: c, rule)
                law[int(proposal.tokens[verdict.path[0]]) if verdict.path else verdict.next_token] += 1
    return law / law.sum()


def test_e14_deterministic_siblings_with_q_one_are_lossless():
    p = torch.tensor([[0.25, 0.24, 0.15, 0.36], [1.0, 0, 0, 0], [1.0, 0, 0, 0]], dtype=torch.float64)
    tree = Proposal(torch.tensor([0, 2]), torch.tensor([-1, -1]))
    close(law_of_verify(tree, p), p[0].tolist(), 1e-6)


def test_e20_e62_the_distributions_are_not_changed_by_the_check():
    p = torch.tensor([[0.0, 0.6, 0.4], [0.2, 0.3, 0.5]], dtype=torch.float64)
    before = p.clone()
    verdict = verify(chain([0], q=None), p, [0.5], lambda _: 0.1)
    assert torch.equal(p, before) and verdict.path == []
    close(verdict.law, [0, 0.6, 0.4])


def test_e60_matches_behind_a_rejection_do_not_count():
    p = torch.eye(6).double()[[1, 2, 3, 4, 5]]  # the target wants 1 2 3 4 5
    verdict = verify(chain([1, 0, 3, 4]), p, [0.5] * 4, lambda _: 0.5)
    assert verdict.path == [0] and verdict.next_token == 2
    assert [t.accepted for t in verdict.trials] == [True, False]


def test_a_token_without_mass_is_never_kept_and_a_kept_one_is_never_redrawn():
    p = torch.tensor([[0.0, 1.0], [0.5, 0.5]], dtype=torch.float64)
    assert verify(chain([0]), p, [0.0], lambda _: 0.9).path == []
    assert verify(chain([1]), p, [0.999999], lambda _: 0.9).path == [0]


def test_bonus_comes_after_everything_was_accepted_and_is_drawn_from_the_last_row():
    p = torch.eye(4).double()[[1, 2, 3]]
    verdict = verify(chain([1, 2]), p, [0.5, 0.5], lambda _: 0.5)
    assert verdict.path == [0, 1] and verdict.next_token == 3


def test_a_tree_walks_along_the_argmax_at_temperature_zero():
    p = torch.eye(8).double()[[2, 7, 5, 7, 7, 6]]  # rows: anchor, then nodes 0..4
    tree = Proposal(torch.tensor([1, 2, 3, 5, 4]), torch.tensor([-1, -1, 0, 1, 1]))
    verdict = verify(tree, p, [0.5] * 5, lambda _: 0.5)
    assert verdict.path == [1, 3] and verdict.next_token == 7
    assert [(t.node, t.accepted) for t in verdict.trials] == [(0, False), (1, True), (3, True)]
