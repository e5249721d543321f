"""What a number looks like and where it stands: one format of chances in every view, the header's details folded away, bars of
time that one slow round cannot flatten."""

import math
import re
from pathlib import Path

import pytest
from browser_support import scrub, view
from playwright.sync_api import expect

from app.tape import scripts
from engine import trace

FIRST = trace.read(Path(__file__).parents[1] / "assets" / "traces" / "first.jsonl")
ROUNDS = [r for r in FIRST if r["type"] == "round"]


@pytest.mark.browser
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0, "0"),
        (2e-10, "<1e-6"),
        (1.24e-4, "1.2e-4"),
        (0.00164, "0.0016"),
        (0.0164, "0.016"),
        (0.5, "0.500"),
    ],
)
def test_r8_no_small_chance_loses_its_digits(visit, bundled, value, shown):
    """Never 0 for what is not zero, never a single digit that counts."""
    page = visit(bundled)
    assert page.evaluate(f"value => {{ {scripts()}; return probability(value); }}", value) == shown


@pytest.mark.browser
def test_r8_a_chance_reads_the_same_everywhere(visit, bundled):
    """The same guess on the stage, on its card, in the formula and in the view of fairness."""
    page = visit(bundled)
    index, guess = next(
        (r["i"], v) for r in ROUNDS for v in r["verify"] if v["verdict"] == "rejected" and v["ratio"] < 0.001
    )
    chance = re.sub(r"e-0*", "e-", f"{guess['ratio']:.1e}")
    scrub(page, 1)
    page.locator(f".tape-line [data-round='{index}'][data-slot='{guess['slot']}']").click()
    page.locator(".view-depth").select_option("proof")
    expect(page.locator("[data-symbol=ratio] dd")).to_have_text(chance)
    expect(page.locator(".card-formula")).to_contain_text(f"= {chance} →")
    assert chance in view(page, "fair").locator(".fair-ruler").get_attribute("aria-label")
    known = [id for id, _ in ROUNDS[index]["draft"][guess["slot"]]["q_top"]]
    hidden = [id for id, _ in guess["p_top"][:3] if id not in known]
    card = view(page, "token").locator(".tape-law").first
    assert hidden and card.locator(".at-left span", has_text="–").count() >= len(
        hidden
    )  # somewhere in q's "all others"


@pytest.mark.browser
def test_r9_the_card_is_short_until_the_proof_is_asked_for(visit, bundled):
    """p, q, chance, draw and confidence at first; ranks, entropy, lead and bias with the formula."""
    page = visit(bundled)
    scrub(page, 1)
    page.locator(".tape-line:not([hidden]) .tape-chip.is-kept").first.click()
    facts = page.locator(".tape-card .tape-facts > div:visible")
    expect(facts).to_have_count(5)
    page.locator(".view-depth").select_option("proof")
    expect(facts).to_have_count(10)


@pytest.mark.browser
def test_r9_details_of_a_run_are_folded_and_move_nothing(visit, bundled):
    """Method, k, temperature and losslessness stand there; the rest lies over the page when it is asked for."""
    page = visit(bundled)
    scrub(page, 1)
    header, tape = FIRST[0], page.locator(".tape-top")
    brief = page.locator(".tape-brief span").all_inner_texts()
    assert brief[1:] == [f"k {header['knobs']['k']}", f"T {header['sampling']['temperature']}", "lossless"]
    before = tape.bounding_box()
    page.locator(".tape-more summary").click()
    more = page.locator(".tape-more span")
    expect(more.filter(has_text=header["models"]["target"]["weights"])).to_be_visible()
    assert tape.bounding_box() == before and f"seed {header['seed']}" in more.all_inner_texts()
    page.get_by_text("中文", exact=True).click()
    expect(more.filter(has_text="按行 8 位存储")).to_be_visible()


@pytest.mark.browser
def test_r12_one_slow_round_flattens_no_other(visit, bundled):
    """Bars are as wide as the 90th percentile of the rounds behind the first; longer ones have a mark at their end."""
    page = visit(bundled)
    scrub(page, 1)
    times = [sum(r[t] for t in ("t_draft", "t_target", "t_verify", "t_other")) for r in ROUNDS]
    scale = sorted(times[1:])[math.ceil(0.9 * len(times[1:])) - 1]
    assert float(page.locator(".tape-body").evaluate("n => n.style.getPropertyValue('--scale')")) == pytest.approx(
        scale
    )
    marks = page.locator(".tape-line .tape-ms").evaluate_all(
        "all => all.map(n => parseFloat(getComputedStyle(n).borderRightWidth))"
    )
    assert [mark > 0 for mark in marks] == [time > scale for time in times] and any(marks) and not all(marks)
    assert page.locator(".is-reading").inner_text() == "reads the prompt"
