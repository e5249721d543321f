"""The guided path: chapters that light and let go, numbers from the trace, bets answered by the run, terms."""

import re

import browser_support as support
import pytest
from browser_support import scrub
from playwright.sync_api import expect

from app import sources
from app.words import WORDS

pytestmark = pytest.mark.browser


@pytest.fixture(autouse=True)
def no_recordings(monkeypatch, tmp_path):
    """Chapters stay with the toy run: nothing else is recorded here."""
    monkeypatch.setattr(sources, "GALLERY", tmp_path)


RECORDS = support.toy(support.PLAIN + support.PLAIN[1:] * 4)
ROUNDS = [r for r in RECORDS if r["type"] == "round"]


def chapter(page, number):
    page.locator(".path-dot").nth(number - 1).click()
    expect(page.locator(".path-step")).to_contain_text(f"Chapter {number} of")
    return page.locator(".path")


def test_k1_a_chapter_lights_its_part_and_lets_go(visit, toy):
    """Every chapter lights something that is there; after leaving it no light of it remains."""
    page = visit(toy)
    scrub(page, 0.5)
    total, seen = page.locator(".path-dot").count(), set()
    for number in [*range(1, total + 1), 1]:
        chapter(page, number)
        lit = page.locator(".is-lit").evaluate_all("nodes => nodes.map(n => n.className.replace('is-lit', '').trim())")
        assert lit, number
        seen.add(tuple(lit))
        selected = page.locator(".view-tab[aria-selected=true]").get_attribute("data-view")
        assert selected == {5: "fade", 6: "sure", 7: "fair", 8: "lanes"}.get(number, selected)
    assert len(seen) >= 5
    page.get_by_role("button", name="Next", exact=True).click()
    expect(page.locator(".path-step")).to_contain_text("Chapter 2 of")


def test_k2_the_bet_is_answered_by_the_trace_and_stays(visit, toy):
    """Before the verdict of a doubtful guess the reader bets; the answer is the trace's, and the bet stays beside it."""
    page = visit(toy)
    doubtful = [(r, v) for r in ROUNDS for v in r["verify"] if v["u"] is not None and 0.1 <= v["ratio"] <= 0.9]
    record, v = doubtful[0]
    d = record["draft"][v["slot"]]
    scrub(page, 0)
    for _ in range(record["i"]):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    assert page.locator(".tape-stage.is-checking").count()
    bet = page.locator(".path-bet")
    expect(bet).to_contain_text(
        f"Guess {v['slot'] + 1} ␠is: the drafter gave it {d['q_tok']:.3f}, the target gives it {v['p_tok']:.3f}."
    )
    assert v["verdict"] == "rejected"
    bet.get_by_role("button", name="accepted").click()
    expect(bet).to_contain_text("Not this time")
    expect(bet).to_contain_text(f"Its chance was {v['ratio']:.3f}, the draw {v['u']:.3f}: rejected")
    assert bet.get_by_role("button", name="accepted").get_attribute("aria-pressed") == "true"
    expect(page.locator(".path-dot.is-done")).to_have_count(1)


def test_k3_a_chapter_without_its_recording_says_so(visit, toy):
    """The toy run is n-gram's: the chapter of plain decoding says whose numbers these are, and bets nothing."""
    page = visit(toy)
    path = chapter(page, 2)
    expect(path.locator(".path-missing")).to_contain_text("not here")
    assert path.locator(".path-choice").count() == 0
    chapter(page, 3)
    assert path.locator(".path-missing").count() == 0


def test_k2_how_many_will_survive(visit, toy):
    page = visit(toy)
    path = chapter(page, 3)
    scrub(page, 0)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    shown = ROUNDS[int(page.locator(".tape-stage .tape-number").inner_text()) - 1]
    choices = path.locator(".path-choice")
    assert choices.all_inner_texts() == [str(i) for i in range(len(shown["draft"]) + 1)]
    kept = sum(e["maker"] == "draft" for e in shown["emit"])
    choices.nth(kept).click()
    expect(path.locator(".path-answer")).to_contain_text(
        f"Right. Accepted: {kept} of {len(shown['draft'])}", timeout=15_000
    )


def test_k3_numbers_in_sentences_are_the_trace_s(visit, toy):
    """The first chapter counts as the running counts of the last round do; every sentence reads without its numbers."""
    page = visit(toy)
    scrub(page, 1)
    counts = ROUNDS[-1]["counts"]
    expect(page.locator(".path-text")).to_contain_text(f"{counts['passes']} passes gave {counts['tokens']} tokens")
    chapter(page, 4)
    spent = [sum(r[t] for r in ROUNDS) for t in ("t_draft", "t_target", "t_verify", "t_other")]
    expect(page.locator(".path-text")).to_contain_text(f"{100 * spent[0] / sum(spent):.0f} % of this run")
    for code, words in WORDS.items():
        for key, text in words.items():
            if re.fullmatch(r"path_\w+_text", key):
                assert len(re.sub(r"\{\w+(\|[^}]*)?\}", "", text)) > 60, (code, key)


def test_k4_every_coined_word_has_a_card_and_a_place(visit, toy):
    """A word of the text tells its one line; Show me lights a part that exists."""
    page = visit(toy)
    scrub(page, 1)
    told = set()
    for number in range(1, page.locator(".path-dot").count() + 1):
        chapter(page, number)
        for word in page.locator(".path-text .path-word").all():
            word.click()
            name = word.inner_text()
            expect(page.locator(".path-term b")).to_have_text(name)
            assert len(page.locator(".path-term").inner_text()) > len(name) + 25
            page.locator(".path-show").click()
            assert page.locator(".is-lit").count(), name
            told.add(name)
    assert told == {
        WORDS["en"][key] for key in WORDS["en"] if re.fullmatch(r"term_[a-z]+", key) and key + "_is" in WORDS["en"]
    }


def test_k1_the_first_visit_stops_once_before_a_refusal_and_goes_on(visit, tiny, tmp_path):
    """Without a click: play stops with a question at the pass before a doubtful verdict, and goes on by itself."""
    support.keep(support.toy(support.PLAIN * 3), tmp_path)
    with support.serving(tmp_path) as url:
        page = visit(url)
        expect(page.locator(".path-question")).to_contain_text("Will it be accepted?", timeout=40_000)
        expect(page.locator(".tape-play")).to_contain_text("Play", timeout=5_000)
        at = int(page.locator(".tape-scrub").input_value())
        page.wait_for_function(f"document.querySelector('.tape-scrub').value > {at}", timeout=15_000)


def test_k6_a_depth_changes_no_number_and_loses_no_selection(visit, toy):
    """First look, workings, formula: what is hidden comes back as it was; numbers, pins and playhead stay."""
    page = visit(toy)
    scrub(page, 0.5)
    page.locator(".tape-line .is-kept").first.click()
    page.mouse.move(2, 2)

    def told():
        numbers = page.locator(".tape-value, .tape-shares, .tape-place").all_text_contents()
        return (
            numbers,
            page.locator(".is-pinned").count(),
            page.locator(".tape-scrub").input_value(),
            page.locator("#view-token").text_content(),
        )

    before = told()
    for depth, tabs, proof in (("first", False, False), ("working", True, False), ("proof", True, True)):
        page.locator(".view-depth").select_option(depth)
        assert page.locator(".view-tabs").is_visible() == tabs
        assert page.locator(".card-formula").first.is_visible() == proof
        assert told() == before
        assert page.locator(".tape-text").is_visible() and page.locator(".tape-stage").is_visible()


def test_k7_symbol_and_number_light_each_other(visit, toy):
    """Every symbol of the formula has exactly one number that it stands for; pointing or focus on either lights both."""
    page = visit(toy)
    scrub(page, 1)
    page.locator(".view-depth").select_option("proof")
    page.locator(".tape-line .is-rejected").first.click()
    symbols = page.locator(".card-symbol")
    assert symbols.count() == 4
    for symbol in symbols.all():
        name = symbol.get_attribute("data-symbol")
        number = page.locator(f".tape-facts [data-symbol={name}]")
        assert number.count() == 1
        for one, act in ((symbol, "hover"), (number, "hover"), (symbol, "focus"), (number, "focus")):
            page.mouse.move(2, 2)
            getattr(one, act)()
            assert page.locator(f".is-lit[data-symbol={name}]").count() == 2, (name, act)
        page.evaluate("document.activeElement.blur()")
    record = next(r for r in ROUNDS if any(v["verdict"] == "rejected" for v in r["verify"]))
    v = next(v for v in record["verify"] if v["verdict"] == "rejected")
    d = record["draft"][v["slot"]]
    formula = page.locator(".card-formula").inner_text()
    assert all(f"{x:.3f}" in formula for x in (v["u"], v["p_tok"], d["q_tok"], v["ratio"])) and "rejected" in formula


def test_m1_chapter_and_depth_are_in_the_link(visit, toy):
    page = visit(f"{toy}/?chapter=dflash&depth=proof")
    expect(page.locator(".path-step")).to_contain_text("Chapter 5 of")
    assert page.locator(".view-depth").input_value() == "proof"
    assert page.locator(".view-tab[aria-selected=true]").get_attribute("data-view") == "fade"
    page = visit(f"{toy}/?chapter=nonsense&depth=deep")
    expect(page.locator(".path-step")).to_contain_text("Chapter 1 of")
    assert page.locator(".view-depth").input_value() == "working"
