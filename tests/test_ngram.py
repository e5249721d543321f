"""Prompt lookup: which match wins, what is never proposed, what it costs."""

from engine import Sampling
from engine.drafters.ngram import NgramDrafter, lookup
from engine.types import Sequence


def propose(tokens, k=4, n=3, shortest=1, stop=(), limit=1000):
    sequence = Sequence(list(tokens), len(tokens), Sampling(stop=frozenset(stop)), limit)
    return NgramDrafter(k, n, shortest).propose([sequence])[0]


def test_e55_longest_match_wins_then_the_latest_with_k_tokens_behind_it_else_the_earliest():
    assert propose([1, 2, 9, 9, 5, 2, 8, 8, 1, 2], k=2).tokens.tolist() == [9, 9]  # (1 2) beats the later (2)
    assert propose([1, 2, 9, 9, 1, 2, 8, 8, 1, 2], k=2).tokens.tolist() == [8, 8]  # two equals: the later
    assert propose([7, 7, 7, 7, 7]).tokens.tolist() == [7, 7]  # three match three; the ending never matches itself
    assert propose([7] * 9, n=2).tokens.tolist() == [7, 7, 7, 7]
    assert propose([1, 2, 1, 2, 1, 2, 1, 2], k=3).tokens.tolist() == [1, 2, 1]
    assert lookup([1, 2, 3, 1], 3, 4) == (1, 1)  # fewer than k behind it, and never past the end


def test_e54_without_a_match_nothing_is_proposed_and_the_reason_is_named():
    for tokens in ([1, 2, 3, 4], [5], [5, 6]):
        proposal = propose(tokens)
        assert len(proposal) == 0 and proposal.note == "no_match"


def test_e02_nothing_is_proposed_behind_a_stop_token():
    assert propose([1, 7, 2, 3, 1], n=1, stop=[7]).tokens.tolist() == [7]
    assert propose([1, 4, 7, 3, 1], n=1, stop=[7]).tokens.tolist() == [4, 7]


def test_a_match_of_one_token_is_too_short_by_default():
    assert len(propose([1, 7, 2, 3, 1], shortest=2)) == 0
    assert len(propose([1, 2, 7, 3, 1, 2], shortest=2)) == 4


def test_d2_each_proposal_names_the_span_it_was_copied_from():
    proposal = propose([4, 1, 2, 9, 8, 6, 1, 2], k=2)
    assert proposal.tokens.tolist() == [9, 8]
    assert proposal.story == [{"pass": 0, "source": [1, 5], "matched": 2}] * 2


def test_the_last_token_of_the_budget_is_not_drafted():
    assert propose([1, 2, 1, 2], limit=5).note == "last_token"
    assert len(propose([1, 2, 1, 2], limit=6)) == 1
