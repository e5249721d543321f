"""The player: steps, speeds, jumps, stops and keys, in headless Chromium, on a recorded toy run."""

import re
import time

import browser_support as support
import pytest
from browser_support import ask, finished, ready, scrub, view
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
RECORDS = support.toy(support.PLAIN + support.PLAIN[1:] * 4)
ROUNDS = [r for r in RECORDS if r["type"] == "round"]


def beats():
    """(round, kind) of every moment that the player can stand at, recounted from the records."""
    for r in ROUNDS:
        for _ in {d["pass"] for d in r["draft"]}:
            yield r["i"], "draft"
        yield r["i"], "check"
        for v in r["verify"]:
            if v["verdict"] != "not_reached":
                yield r["i"], "verdict"
        yield r["i"], "final"


BEATS = list(beats())


def at(page):
    return int(page.locator(".tape-scrub").input_value())


def still(page):
    """The page standing at its beginning, with nothing in focus."""
    scrub(page, 0)
    page.evaluate("document.activeElement.blur()")
    return page


def go(page, index):
    """To the end of a round."""
    scrub(page, BEATS.index((index, "final")) / (len(BEATS) - 1))


def written(page):
    return page.locator(".tape-text span:not([hidden])").all_text_contents()


def test_b2_one_press_is_one_event_one_phase_one_round(visit, toy):
    """Right goes one event on, shift one kind of event, down to the end of a round; buttons do the same."""
    page = still(visit(toy))
    for i in range(1, 9):
        page.keyboard.press("ArrowRight")
        assert at(page) == i
    scrub(page, 0)
    ends = [i for i, beat in enumerate(BEATS) if BEATS[i + 1 : i + 2] != [beat] and i]
    for end in ends[:8]:
        page.keyboard.press("Shift+ArrowRight")
        assert at(page) == end
    scrub(page, 0)
    finals = [i for i, beat in enumerate(BEATS) if beat[1] == "final"]
    for final in finals[:4]:
        page.keyboard.press("ArrowDown")
        assert at(page) == final
    page.get_by_role("button", name="On to the end of a round").click()
    assert at(page) == finals[4]
    page.get_by_role("button", name="One step back").click()
    assert at(page) == finals[4] - 1


@pytest.mark.parametrize(
    "keys", [("ArrowRight", "ArrowLeft"), ("Shift+ArrowRight", "Shift+ArrowLeft"), ("ArrowDown", "ArrowUp")]
)
def test_b3_as_many_steps_back_restore_the_text(visit, toy, keys):
    page = still(visit(toy))
    seen = []
    for _ in range(12):
        page.keyboard.press(keys[0])
        seen.append((at(page), written(page), page.locator(".tape-stage").inner_text()))
    for want in reversed(seen[:-1]):
        page.keyboard.press(keys[1])
        assert (at(page), written(page), page.locator(".tape-stage").inner_text()) == want


def test_b4_real_time_is_real_time(visit, tiny, tmp_path):
    """At real time a recorded round stays as long as it took, within a frame or two; slower speeds stretch it."""
    slow = [
        {**r, "t_draft": 120.0, "t_target": 300.0, "t_verify": 60.0, "t_other": 20.0} if r["type"] == "round" else r
        for r in RECORDS
    ]
    support.keep(slow, tmp_path)
    with support.serving(tmp_path) as url:
        page = still(visit(url))
        for speed, factor in (("1", 1), ("0.5", 2)):
            page.locator(".player-speed").select_option(speed)
            go(page, 2)
            took = page.evaluate("""() => new Promise(done => {
                const times = [];
                const look = now => { const round = document.querySelector(".tape-stage .tape-number").textContent;
                    if (times.at(-1)?.[0] !== round) times.push([round, now]);
                    times.length > 5 ? done((times[5][1] - times[1][1]) / 4) : requestAnimationFrame(look); };
                document.querySelector(".tape-play").click(); requestAnimationFrame(look); })""")
            page.locator(".tape-play").click()
            assert took == pytest.approx(500 * factor, abs=40)


def test_b5_jumps_land_on_the_listed_rounds(visit, toy):
    """Next and previous rejection, next bonus, the longest hit, the least sure guess."""
    page = still(visit(toy))
    refused = [r["i"] for r in ROUNDS if any(v["verdict"] == "rejected" for v in r["verify"])]
    bonus = [r["i"] for r in ROUNDS if r["emit"][-1]["maker"] == "bonus"]
    here = lambda: int(page.locator(".tape-stage .tape-number").inner_text()) - 1  # noqa: E731
    for want in refused[:3]:
        page.keyboard.press(".")
        assert here() == want and page.locator(".tape-stage .is-rejected").count() == 1
    page.keyboard.press(",")
    assert here() == refused[1]
    scrub(page, 0)
    for want in bonus[:2]:
        page.keyboard.press("b")
        assert here() == want
    page.get_by_role("button", name="longest hit").click()
    kept = [sum(e["maker"] == "draft" for e in r["emit"]) for r in ROUNDS]
    assert here() == kept.index(max(kept))
    page.get_by_role("button", name="least sure guess").click()
    sure = [min([d["q_own_tok"] for d in r["draft"]], default=2) for r in ROUNDS]
    assert here() == sure.index(min(sure))


def test_b6_play_stops_in_the_first_round_that_meets_the_condition(visit, toy):
    page = still(visit(toy))
    page.locator(".player-speed").select_option("1")
    page.locator(".player-stop").select_option("rejected")
    page.locator(".tape-play").click()
    expect(page.locator(".tape-play")).to_contain_text("Play")
    first = next(r["i"] for r in ROUNDS if any(v["verdict"] == "rejected" for v in r["verify"]))
    expect(page.locator(".tape-place")).to_contain_text(f"round {first + 1} of")
    assert page.locator(".tape-stage .is-rejected").count() == 1


def test_b7_keys_are_listed_and_never_taken_from_inputs(visit, toy):
    """`?` shows the list; the whole map typed into the prompt only writes; each key has a button or stands in the list."""
    page = still(visit(toy))
    page.keyboard.press("?")
    dialog = page.locator("dialog.player-keys")
    assert dialog.is_visible() and dialog.locator("kbd").count() >= 12
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    before = (at(page), written(page), page.locator(".view-tab[aria-selected=true]").inner_text())
    prompt = page.locator("#prompt textarea")
    prompt.fill("")
    prompt.focus()
    page.keyboard.type(" .,b123dmprs?")
    for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Escape"):
        page.keyboard.press(key)
    assert prompt.input_value() == " .,b123dmprs?"
    assert (at(page), written(page), page.locator(".view-tab[aria-selected=true]").inner_text()) == before


def test_r8_two_tokens_can_be_kept_side_by_side(visit, toy):
    """Hover shows, click keeps, at most two; digits keep guesses of the round in view; Esc lets go of both."""
    page = still(visit(toy))
    go(page, 2)
    page.keyboard.press("1")
    page.keyboard.press("2")
    cards = page.locator(".tape-one")
    assert cards.count() == 2 and page.locator(".tape-stage .is-pinned").count() == 2
    texts = [card.inner_text() for card in cards.all()]
    assert all("pinned" in text for text in texts) and len(set(texts)) == 2
    page.keyboard.press("3")
    assert page.locator(".tape-stage .is-pinned").count() == 2
    page.keyboard.press("Escape")
    assert page.locator(".is-pinned").count() == 0
    assert not re.search("pinned", page.locator("#view-token").inner_text())


def test_n5_chosen_token_lights_everywhere(visit, toy):
    """A token pointed at in the text is marked in text, tape, card and timeline alike; pinned, in every view."""
    page = still(visit(toy))
    scrub(page, 1)
    span = page.locator(".tape-text span.by-draft:not([hidden])").nth(2)
    index, slot = map(int, span.evaluate("e => [e.dataset.round, e.dataset.slot]"))
    span.hover()
    assert page.locator(f".is-shown[data-round='{index}'][data-slot='{slot}']").count() == 2
    assert f"round {index + 1}" in page.locator("#view-token").inner_text()
    [mark] = page.locator(".player-marks i").evaluate_all(
        "marks => marks.map(mark => parseFloat(mark.style.left) / 100)"
    )
    span.click()
    page.mouse.move(0, 0)
    page.locator(".tape-scrub").evaluate(
        "(s, share) => { s.value = share * s.max; s.dispatchEvent(new Event('input')); }", mark
    )
    beat = page.locator(".tape-place").inner_text()
    assert beat.startswith(f"round {index + 1} of")  # the mark stands where the token is decided
    assert page.locator(f".tape-stage [data-slot='{slot}']:is(.is-kept)").count() == 1
    scrub(page, 1)
    fade = view(page, "fade")
    assert fade.locator(".is-decay rect").evaluate_all(
        "bars => bars.map(bar => bar.classList.contains('is-here'))"
    ) == [i == slot for i in range(3)]


def test_r9_the_confidence_of_a_chosen_guess_lights(visit, block):
    """The curve shows the chosen guess's round, whatever the playhead's, and its dot stands out."""
    page = still(visit(block))
    scrub(page, 1)
    sure = view(page, "sure")
    assert sure.locator(".curves-dot.is-here").count() == 0
    cell = page.locator(".tape-line [data-round='1'][data-slot='1']")
    cell.click()
    page.mouse.move(0, 0)
    dots = sure.locator(".is-sure .curves-dot")
    assert dots.evaluate_all("dots => dots.map(dot => dot.classList.contains('is-here'))") == [False, True, False]
    page.keyboard.press("Escape")
    expect(sure.locator(".curves-dot.is-here")).to_have_count(0)


def paused(visit, url):
    """A page with a long run whose engine stands still. Its forwards are slowed until then, or it would be over too soon."""
    from app import sources

    page = ready(visit(url))
    lm = sources._target.lm
    before = lm.forward
    lm.forward = lambda *a, **k: (time.sleep(0.01), before(*a, **k))[1]
    try:
        ask(page, "abc abc abc", 400, method="plain")
        expect(page.locator(".status")).to_contain_text("Running", timeout=20_000)
        page.get_by_role("button", name="Pause", exact=True).click()
        expect(page.locator(".status")).to_contain_text("Paused", timeout=20_000)
    finally:
        del lm.forward
    return page


def test_b1_pause_stands_the_engine_still(visit, bundled):
    """Paused at the end of a round: no round arrives and the target is not called; Continue goes on to the same end."""
    from app import sources

    page = paused(visit, bundled)
    calls = []
    lm = sources._target.lm
    before = lm.forward
    lm.forward = lambda *a, **k: (calls.append(1), before(*a, **k))[1]
    try:
        received = page.locator(".tape-scrub").get_attribute("max")
        page.wait_for_timeout(1500)
        assert calls == [] and page.locator(".tape-scrub").get_attribute("max") == received
        page.get_by_role("button", name="Continue", exact=True).click()
        finished(page)
        assert calls
    finally:
        del lm.forward
    assert page.locator(".tape-shares b").first.inner_text() == "400"


def test_b1_stop_ends_a_paused_run(visit, bundled):
    page = paused(visit, bundled)
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator(".status")).to_contain_text("Stopped", timeout=20_000)
    ask(page, "again", 20)
    expect(page.locator(".tape-shares b").first).to_have_text("20", timeout=30_000)
