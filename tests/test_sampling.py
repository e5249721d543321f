"""warp(), draw() and uniforms(): the three things that every token goes through."""

import math

import pytest
import torch

from engine.sampling import ACCEPT, DRAFT, FINAL, draw, uniforms, warp
from engine.types import Sampling


def law(**settings):
    return warp(torch.tensor([0.4, 0.35, 0.25]).log()[None], Sampling(**settings))[0].tolist()


def test_temperature_comes_first_then_top_k_then_top_p_then_min_p():
    assert law(temperature=1) == pytest.approx([0.4, 0.35, 0.25])
    assert law(temperature=0.5) == pytest.approx([x * x / 0.345 for x in (0.4, 0.35, 0.25)])
    assert law(temperature=1, top_k=2) == pytest.approx([0.4 / 0.75, 0.35 / 0.75, 0])
    assert law(temperature=1, top_p=0.5) == pytest.approx([0.4 / 0.75, 0.35 / 0.75, 0])  # the token that crosses stays
    assert law(temperature=1, min_p=0.7) == pytest.approx([0.4 / 0.75, 0.35 / 0.75, 0])
    assert law(temperature=1, top_k=2, top_p=0.53) == pytest.approx([1, 0, 0])  # 0.4 alone is .533 of what top-k left


@pytest.mark.parametrize("top_p", [0, 1e-9, 1.0])
@pytest.mark.parametrize("top_k", [0, 1, 110])
@pytest.mark.parametrize("temperature", [0, 1e-6, 100])
def test_e23_edge_values_give_a_law(temperature, top_k, top_p):
    logits = torch.linspace(-30, 30, 100)[torch.randperm(100, generator=torch.Generator().manual_seed(0))][None]
    p = warp(logits, Sampling(temperature=temperature, top_k=top_k, top_p=top_p))[0]
    assert p.isfinite().all() and float(p.sum()) == pytest.approx(1)
    if temperature < 1 or top_k == 1 or top_p < 1:
        assert p.argmax() == logits.argmax() and p.max() == 1


def test_e15_warpers_work_together_and_see_rows():
    settings = Sampling(temperature=0.1, top_p=0.9, top_k=5)
    logits = torch.randn(3, 4, 50, generator=torch.Generator().manual_seed(1))
    together = warp(logits, settings)
    assert torch.equal(together[1, 2], warp(logits[1, 2][None], settings)[0])


def test_nucleus_of_a_large_vocabulary_equals_the_full_sort():
    for scale in (0.1, 5):  # a flat law needs the whole vocabulary, a sharp one its head
        logits = scale * torch.randn(2, 6000, generator=torch.Generator().manual_seed(2))
        got = warp(logits, Sampling(temperature=1, top_p=0.9))
        for row, p in zip(got, logits.softmax(-1), strict=True):
            ordered, ids = p.sort(dim=0, descending=True, stable=True)
            size = int((ordered.double().cumsum(0) - ordered < 0.9).sum())
            assert set(row.nonzero()[:, 0].tolist()) == set(ids[:size].tolist())
            assert float(row.sum()) == pytest.approx(1, abs=1e-5)


def test_e25_ties_go_to_the_lowest_id():
    logits = torch.tensor([[1.0, 3.0, 3.0, 3.0]])
    assert warp(logits, Sampling()).argmax() == 1
    assert warp(logits, Sampling(temperature=1, top_p=0)).argmax() == 1


def test_draw_is_the_inverse_of_the_cumulative_sum_and_never_hits_an_empty_id():
    p = torch.tensor([0.0, 0.25, 0.0, 0.75, 0.0])
    for u, token in ((0.0, 1), (0.2499, 1), (0.25, 3), (1 - 2**-53, 3)):
        assert int(draw(p, torch.tensor(u, dtype=torch.float64))) == token
    rows = draw(p.repeat(2, 1), torch.tensor([0.1, 0.9], dtype=torch.float64))
    assert rows.tolist() == [1, 3]


def test_e22_randomness_is_a_function_of_its_arguments():
    a = uniforms(7, 100, DRAFT, 5)
    assert a == uniforms(7, 100, DRAFT, 5) and a[:3] == uniforms(7, 100, DRAFT, 3)
    others = [
        uniforms(7, 100, ACCEPT, 5),
        uniforms(7, 100, FINAL, 5),
        uniforms(7, 101, DRAFT, 5),
        uniforms(8, 100, DRAFT, 5),
    ]
    assert all(set(a).isdisjoint(other) for other in others)
    state = torch.random.get_rng_state()
    uniforms(1, 2, 0, 1000)
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize(
    "bad",
    [
        {"temperature": -1},
        {"temperature": math.nan},
        {"temperature": "1"},
        {"top_k": -1},
        {"top_k": 2.5},
        {"top_p": 1.5},
        {"min_p": -0.1},
        {"max_new": 0},
        {"seed": -1},
        {"seed": True},
        {"stop_strings": ("",)},
    ],
)
def test_bad_settings_are_refused_with_what_was_given(bad):
    with pytest.raises(ValueError, match="give"):
        Sampling(**bad)


@pytest.mark.parametrize("option", ["logit_bias", "frequency_penalty", "repetition_penalty", "min_new_tokens"])
def test_e17_e18_e08_options_that_no_path_honours_do_not_exist(option):
    with pytest.raises(TypeError):
        Sampling(**{option: 1})
