"""The real page in headless Chromium, driven by what a visitor does. Nothing leaves the machine; live runs use a tiny model."""

import itertools
import json
import re
import time

import browser_support as support
import pytest
from axe_playwright_python.sync_playwright import Axe
from browser_support import ask, finished, ready, records, scrub, view
from gradio_client import Client
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

WRITING = "document.querySelectorAll('.tape-text span:not([hidden])').length > 5"

# ---- the recording ---------------------------------------------------------------------------------------------------


def test_r1_recorded_run_plays_without_a_click(visit, bundled):
    """Tokens move within two seconds of the load event, with the badge of a recording."""
    page = visit(bundled)
    page.wait_for_function("document.querySelector('.tape-scrub').value > 0", timeout=2000)
    page.wait_for_selector(".tape-text span:not([hidden])", timeout=2000)
    expect(page.locator(".tape-head .tape-badge")).to_contain_text("recorded on")
    before = page.locator(".tape-scrub").input_value()
    page.wait_for_function(f"document.querySelector('.tape-scrub').value > {before}", timeout=4000)


def test_a7_a11_u23_coloured_counts_are_the_trace_s(visit, toy):
    """Tokens on the page, by maker and by verdict, are those of the trace; so are the numbers."""
    page = visit(toy)
    scrub(page, 1)
    rounds = [r for r in support.toy(support.PLAIN + support.PLAIN[1:] * 4) if r["type"] == "round"]
    made = [e["maker"] for r in rounds for e in r["emit"]]
    fates = [v["verdict"] for r in rounds for v in r["verify"]]
    assert page.locator(".tape-text .by-draft:not([hidden])").count() == made.count("draft")
    assert page.locator(".tape-text .by-target:not([hidden])").count() == len(made) - made.count("draft")
    for fate in ("kept", "rejected", "not_reached"):
        lines, stage = (
            page.locator(f".tape-line:not([hidden]) .is-{fate}"),
            page.locator(f".tape-stage .tape-cell.is-{fate}"),
        )
        assert lines.count() + stage.count() == fates.count(fate), fate
    counts = rounds[-1]["counts"]
    values = page.locator(".tape-value").all_inner_texts()
    assert values[0] == f"{counts['tokens'] / counts['passes']:.2f}"
    assert values[1] == f"{counts['accepted']} / {counts['tested']}"
    page.locator(".tape-stat").first.focus()
    expect(page.locator(".tape-definition")).to_contain_text(f"= {counts['tokens']} / {counts['passes']}")


def test_r18_a_loss_is_called_slower(visit, toy):
    """The end of the run compares with plain decoding in words."""
    page = visit(toy)
    scrub(page, 1)
    expect(page.locator(".tape-definition")).to_contain_text(re.compile(r"faster|slower"))


def test_u11_u14_split_characters_and_blanks(visit, toy):
    """No replacement mark anywhere; the text has the whole character, the tape its bytes; blanks are visible."""
    page = visit(toy)
    scrub(page, 1)
    assert "🦊" in page.locator(".tape-text").inner_text()
    assert "\ufffd" not in page.content()
    tape = page.locator(".tape-history").text_content()
    assert "F0 9F" in tape and "⏎" in tape and "⇥" in tape and "␠" in tape
    assert not page.locator(".tape-text .hex").count()


def test_l2_scripts_of_the_world_keep_their_order(visit, tiny, tmp_path):
    """Chinese, Arabic and split characters: the tape keeps the order of the tokens, each isolated; the text reads as one."""
    pieces = ["你好", "，", "世界", " مرحبا", " بالعالم", [240, 159], [166, 138], " end"]
    rounds = [([], [], pieces[0]), (pieces[1:4], ["kept"] * 3, pieces[4]), (pieces[5:7], ["kept"] * 2, pieces[7])]
    support.keep(support.toy(rounds), tmp_path)
    with support.serving(tmp_path) as url:
        page = visit(url)
        scrub(page, 1)
        assert page.locator(".tape-text").inner_text().replace("\u200b", "") == "你好，世界 مرحبا بالعالم🦊 end"
        for line, count in ((page.locator(".tape-line:not([hidden])").nth(1), 4), (page.locator(".tape-stage"), 3)):
            cells = line.locator("[data-round]")
            assert cells.count() == count
            lefts = [cell.bounding_box()["x"] for cell in cells.all()]
            assert lefts == sorted(lefts)
        shown = page.locator(".tape-stage [data-round] .tape-piece").all_inner_texts()
        assert shown[:2] == ["F0 9F", "A6 8A"]
        assert page.locator(".tape-line:not([hidden]) bdi").count() == 5


def test_u08_u09_hostile_text_is_shown_literally(visit, hostile):
    """Tags, templates and handlebars of models and users are text everywhere and run nowhere."""
    dialogs = []
    page = visit(hostile)
    page.on("dialog", lambda d: (dialogs.append(d.message), d.dismiss()))
    scrub(page, 1)
    written, asked, tape = (page.locator(s).text_content() for s in (".tape-text", ".tape-prompt", ".tape-history"))
    for text in support.HOSTILE:
        assert text in written and text in asked
        assert text.replace(" ", "␠") in tape or "\u202e" in text
    assert "U+202E" in tape
    for cell in page.locator(".tape-line .is-kept").all()[:4]:
        cell.click()
        assert page.locator(".tape-card img, .tape img, .tape script, .tape style").count() == 0
    assert page.locator(".tape-card .tape-token").first.is_visible()
    page.locator("#prompt textarea").fill(" ".join(support.HOSTILE))
    ready(page)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".tape-head .tape-badge")).to_contain_text("measured", timeout=20_000)
    assert support.HOSTILE[0] in page.locator(".tape-prompt").text_content()
    assert page.locator(".tape img").count() == 0 and not dialogs


def test_a9_every_token_by_keyboard_with_the_same_card(visit, toy):
    """One tab stop; arrows reach every token in order; keyboard, mouse and tap give the same card; Esc lets go."""
    page = visit(toy)
    scrub(page, 1)
    assert page.locator(".tape-grid [tabindex='0']").count() == 1
    page.locator(".tape-grid [tabindex='0']").focus()
    total = page.locator(".tape-line:not([hidden]) [data-round], .tape-stage [data-round]").count()
    page.keyboard.press("Home")
    for _ in range(60):
        page.keyboard.press("ArrowUp")
    page.keyboard.press("Home")
    seen, cards = set(), {}
    for _ in range(total + 5):
        where = page.evaluate("(e => e.dataset.round + '/' + e.dataset.slot)(document.activeElement)")
        seen.add(where)
        cards[where] = page.locator(".tape-card").inner_text()
        page.keyboard.press("ArrowRight")
    assert len(seen) == total
    for where in ("1/0", "2/1", "2/own"):
        i, slot = where.split("/")
        cell = page.locator(f".tape-line [data-round='{i}'][data-slot='{slot}']")
        cell.hover()
        assert page.locator(".tape-card").inner_text() == cards[where]
        cell.click()
        expect(page.locator(".tape-card")).to_contain_text("Esc unpins")
        page.keyboard.press("Escape")
        expect(page.locator(".tape-card")).not_to_contain_text("Esc unpins")
    page.locator(".tape-stage [data-round]").first.hover()
    card, whole = page.locator(".tape-card").inner_text(), page.locator(".tape-card").text_content()
    assert all(word in card for word in ("p: target", "q: drafter", "draw u"))
    assert all(word in whole and word not in card for word in ("entropy", "rank at the target"))  # at the last depth


def test_scrubbing_asks_nobody(visit, toy):
    """The playhead is local: moving it makes no request; keys move it too."""
    page = ready(visit(toy))
    asked = []
    page.on("request", lambda r: asked.append(r.url))
    for share in (0, 0.5, 1, 0.2):
        scrub(page, share)
    page.locator(".tape-scrub").focus()
    page.keyboard.press("Home")
    expect(page.locator(".tape-scrub")).to_have_attribute("aria-valuetext", re.compile("round 1 of"))
    page.keyboard.press("End")
    expect(page.locator(".tape-place")).to_have_text("round 26 of 26")
    page.wait_for_timeout(300)
    assert not [url for url in asked if "heartbeat" not in url]


def test_r5_nothing_shifts_while_playing(page, visit, toy):
    """Layout shift is 0 over several rounds, in a wide and in a narrow window."""
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        ready(visit(toy))
        page.locator(".tape-play").scroll_into_view_if_needed()
        page.evaluate("document.querySelector('.tape-scrub').value = 0")
        page.wait_for_timeout(600)
        page.evaluate("""() => { window.shifts = []; new PerformanceObserver(list => { for (const e of list.getEntries())
            shifts.push([e.value, ...e.sources.map(s => [s.node?.className, s.node?.textContent])]); })
            .observe({ type: "layout-shift" }); }""")
        start = int(page.locator(".tape-scrub").input_value())
        page.wait_for_function(f"document.querySelector('.tape-scrub').value > {start + 12}", timeout=30_000)
        assert page.evaluate("shifts") == []


def test_u16_scroll_is_not_stolen(visit, toy):
    """A reader who scrolled up in the history stays there while rounds arrive; at the end it follows."""
    page = visit(toy)
    scrub(page, 0.6)
    history = page.locator(".tape-grid")
    assert history.evaluate("h => h.scrollHeight - h.scrollTop - h.clientHeight < 12")
    history.hover()
    page.mouse.wheel(0, -60)
    page.wait_for_timeout(300)
    there = history.evaluate("h => h.scrollTop")
    page.mouse.move(2, 2)
    before = page.locator(".tape-scrub").input_value()
    page.locator(".tape-play").click()
    page.wait_for_function(f"document.querySelector('.tape-scrub').value > {before} + 8", timeout=30_000)
    assert history.evaluate("h => h.scrollTop") == there


def test_f1_f2_f3_survival_and_conditional_acceptance_with_counts(visit, block):
    """Bar k = rounds that kept k / rounds that drafted k, or / rounds whose test got to k; the counts stand below."""
    page = ready(visit(block))
    scrub(page, 1)
    decay = view(page, "fade").locator(".curves-figure.is-decay")
    told = {}
    for mode, whole in (("survival", "offered"), ("conditional", "reached")):
        decay.get_by_role("button", name=mode).click()
        counts = [r for r in records(support.BLOCK) if r["type"] == "round"][-1]["counts"]
        told[mode] = decay.locator(".curves-count").all_text_contents()
        kept = counts["kept"] + [0] * (len(counts[whole]) - len(counts["kept"]))  # nothing was ever kept that far
        assert told[mode] == [f"{k}/{n}" for k, n in zip(kept, counts[whole], strict=True)]
        bars = [float(bar.get_attribute("height")) for bar in decay.locator(".curves-bar").all()]
        unit = bars[0] * counts[whole][0] / kept[0]
        rates = [k / n for k, n in zip(kept, counts[whole], strict=True)]
        assert bars == pytest.approx([unit * r for r in rates], abs=0.01)
        assert decay.locator("svg").get_attribute("aria-label").count("/") == len(rates)
    assert told["survival"] != told["conditional"]
    page.locator(".tape-scrub").evaluate("s => { s.value = 0; s.dispatchEvent(new Event('input')); }")
    assert decay.locator(".curves-bar").count() == 0


def test_g1_confidence_dots_their_product_and_what_became_of_them(visit, block, toy):
    """One dot a guess, the dashed line is the running product, a glyph tells the outcome; no confidence is said in words."""
    page = ready(visit(block))
    scrub(page, 1)
    sure = view(page, "sure").locator(".curves-figure.is-sure")
    last = [r for r in records(support.BLOCK) if r["type"] == "round"][-1]
    heights = sure.evaluate(
        "f => [0, 1].map(i => Number(f.querySelectorAll('.curves-rule')[i * 2].getAttribute('y1')))"
    )
    level = lambda y: (heights[0] - y) / (heights[0] - heights[1])  # noqa: E731
    dots = [level(float(dot.get_attribute("cy"))) for dot in sure.locator(".curves-dot").all()]
    given = [d["confidence"] for d in last["draft"]]
    assert dots == pytest.approx(given, abs=0.01)
    path = sure.locator(".curves-line").get_attribute("d")
    line = [level(float(point.split()[1])) for point in path[1:].split("L")]
    assert line == pytest.approx(list(itertools.accumulate(given, lambda a, b: a * b)), abs=0.01)
    glyphs = {"kept": "✓", "rejected": "✗", "not_reached": "○"}
    assert sure.locator(".curves-fate").all_text_contents() == [glyphs[v["verdict"]] for v in last["verify"]]
    page = ready(visit(toy))
    scrub(page, 1)
    assert "does not say" in view(page, "sure").locator(".curves-note").inner_text()


def test_settings_stand_only_beside_methods_that_listen(visit, toy):
    """DSpark's switches are there for DSpark; a hidden setting is no tab stop either."""
    page = ready(visit(toy))
    seen = {
        "dspark": ["Markov head", "Confidence head", "Least confidence"],
        "dflash": ["Draw each guess", "Least confidence"],
    }
    every = {label for labels in seen.values() for label in labels}
    for method in ("plain", "ngram", "lm", "dflash", "dspark"):
        page.locator(f"#method input[value={method}]").click()
        for label in every:
            shown = page.locator("#try .heard").filter(has_text=label)
            assert shown.is_visible() == (label in seen.get(method, ())), (method, label)
        assert page.locator("#try .heard").filter(has_text="guesses per round").is_visible() == (method != "plain")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_u17_axe_finds_nothing_serious(visit, toy, theme):
    """No serious or critical finding, with a card open, in both themes."""
    page = ready(visit(f"{toy}/?__theme={theme}"))
    scrub(page, 0.3)
    page.locator(".tape-line .is-kept").first.click()
    found = [v for v in Axe().run(page).response["violations"] if v["impact"] in ("serious", "critical")]
    assert not found, [(v["id"], [n["html"][:120] for n in v["nodes"]][:4]) for v in found]


def test_n6_phone_has_no_sideways_scroll(browser, toy):
    """390 px wide: nothing is wider than the screen, a tap opens the card."""
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True, locale="en-US"
    )
    page = context.new_page()
    page.goto(toy)
    page.wait_for_selector(".tape-line", state="attached")
    scrub(page, 1)
    page.locator(".tape-stage [data-round]").first.tap()
    expect(page.locator(".tape-card")).to_contain_text("draw u")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()


def test_n3_r25_reduced_motion_stands_still(browser, toy):
    """With reduced motion nothing plays by itself and the whole run is there; play goes by rounds."""
    context = browser.new_context(reduced_motion="reduce", locale="en-US")
    page = context.new_page()
    page.goto(toy)
    page.wait_for_selector(".tape-line:not([hidden])")
    value = page.locator(".tape-scrub").input_value()
    assert value == page.locator(".tape-scrub").get_attribute("max")
    page.wait_for_timeout(1500)
    assert page.locator(".tape-scrub").input_value() == value
    assert page.evaluate("document.getAnimations().filter(a => a.effect.target?.closest('.tape')).length") == 0
    context.close()


def test_r30_language_switch_relabels_everything(visit, toy):
    """?lang=zh opens in Chinese; the switch relabels tape and native controls without a request, and is remembered."""
    page = ready(visit(toy))
    asked = []
    page.on("request", lambda r: asked.append(r.url))
    page.get_by_label("中文").check()
    expect(page.get_by_role("button", name="运行", exact=True)).to_be_visible()
    expect(page.locator(".tape-play")).to_contain_text(re.compile("暂停|播放|重播"))
    expect(page.locator(".status")).to_contain_text("就绪")
    assert page.evaluate("document.documentElement.lang") == "zh"
    assert not [url for url in asked if "heartbeat" not in url]
    page = visit(f"{toy}/?lang=zh")
    expect(page.locator(".status")).to_contain_text("就绪")
    expect(page.get_by_label("提示词")).to_be_visible()
    text = re.sub(r"[\w.-]*(toy|plain|ngram|lm|exact|SpecScope|English)[\w.-]*", "", page.locator("#try").inner_text())
    assert not re.search(r"[A-Za-z]{9,}", text.replace(page.locator("#prompt textarea").input_value(), "")), text
    page = visit(f"{toy}/?lang=en")
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_visible()


# ---- the engine ------------------------------------------------------------------------------------------------------


def test_a1_live_run_streams(visit, bundled):
    """A run on the engine streams in several messages, ends, and says that it was measured here."""
    page = ready(visit(bundled))
    page.evaluate("""() => { const place = document.querySelector(".tape-place"); window.places = new Set();
        new MutationObserver(() => places.add(place.textContent)).observe(place, { childList: true }); }""")
    ask(page, "abc abc abc", 120)
    expect(page.locator(".tape-head .tape-badge")).to_have_text("measured here, now", timeout=20_000)
    finished(page)
    assert page.evaluate("places.size") > 3
    assert page.locator(".tape-shares b").first.inner_text() == "120"
    expect(page.locator(".tape-prompt")).to_contain_text("abc abc abc")
    expect(page.locator(".tape-definition")).to_contain_text(re.compile("faster|slower|busy"))


def test_ctrl_enter_runs(visit, bundled):
    """Ctrl + Enter in the prompt is Run."""
    page = ready(visit(bundled))
    page.locator("#prompt textarea").fill("by keyboard")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".tape-prompt")).to_contain_text("by keyboard", timeout=20_000)
    finished(page)


def test_u04_stop_then_run_again_five_times(visit, bundled):
    """Stop keeps what was written and shows no error; Run works again at once, five times."""
    page = ready(visit(bundled))
    for turn in range(5):
        ask(page, f"turn {turn}", 512, "plain")
        expect(page.locator(".tape-prompt")).to_contain_text(f"turn {turn}", timeout=20_000)
        page.wait_for_function(WRITING)
        page.get_by_role("button", name="Stop", exact=True).click()
        expect(page.locator(".status")).to_contain_text("Stopped", timeout=10_000)
        assert page.locator(".tape-text span").count() > 0
        assert page.get_by_test_id("toast-body").count() == 0
    ask(page, "the last", 8)
    expect(page.locator(".tape-prompt")).to_contain_text("the last", timeout=20_000)
    finished(page)


def test_u05_a_double_click_starts_one_run(visit, bundled):
    """Two clicks, and Ctrl + Enter after them, are one run; the button is off while it lasts."""
    page = ready(visit(bundled))
    joined = []
    page.on("request", lambda r: joined.append(r.url) if "/queue/join" in r.url else None)
    page.locator("#prompt textarea").fill("twice")
    page.get_by_role("button", name="Run", exact=True).dblclick()
    page.locator("#prompt textarea").press("Control+Enter")
    expect(page.locator(".tape-prompt")).to_contain_text("twice", timeout=20_000)
    finished(page)
    assert len(joined) == 1


def test_u21_two_visitors_do_not_mix(browser, bundled):
    """Both run at once: each sees the own prompt only, and the second is told its place in line."""
    contexts = [browser.new_context(locale="en-US") for _ in range(2)]
    pages = [context.new_page() for context in contexts]
    for page in pages:
        page.goto(bundled)
        ready(page)
    pages[0].evaluate("document.title = 'first'")
    ask(pages[0], "first visitor", 400)
    expect(pages[0].locator(".tape-prompt")).to_contain_text("first visitor", timeout=20_000)
    ask(pages[1], "second visitor", 20)
    expect(pages[1].locator(".status")).to_contain_text("number 1 in line", timeout=10_000)
    for page, name in zip(pages, ("first visitor", "second visitor"), strict=True):
        finished(page, 120_000)
        assert name in page.locator(".tape-prompt").inner_text()
    assert [p.locator(".tape-shares b").first.inner_text() for p in pages] == ["400", "20"]
    for context in contexts:
        context.close()


def test_u01_a_closed_tab_frees_the_engine(browser, bundled):
    """The next visitor is served soon after a tab was closed in mid-run."""
    from app import sources

    context = browser.new_context(locale="en-US")
    page = context.new_page()
    page.goto(bundled)
    ready(page)
    ask(page, "soon gone", 512, "plain")
    page.wait_for_function(WRITING)
    assert len(sources._line) == 1
    context.close()
    until = time.monotonic() + 5
    while sources._line and time.monotonic() < until:
        time.sleep(0.05)
    assert not sources._line


def test_bad_input_on_the_page(visit, bundled):
    """A clear sentence before anything starts; what was typed stays; the next run works."""
    page = ready(visit(bundled))
    run = page.get_by_role("button", name="Run", exact=True)
    page.locator("#prompt textarea").fill("   ")
    run.click()
    expect(page.get_by_text("The prompt is empty: type something, or choose an example.").first).to_be_visible()
    page.locator("#prompt textarea").fill("x" * 3000)
    run.click()
    expect(page.get_by_text("The prompt has 3000 characters; at most 2000 are possible.").first).to_be_visible()
    assert page.locator("#prompt textarea").input_value() == "x" * 3000
    page.locator("#prompt textarea").fill("fine again")
    box = page.get_by_label("Seed", exact=True)
    box.fill("-3")
    run.click()
    expect(page.get_by_text("seed is -3; it must be a whole number from 0").first).to_be_visible()
    box.fill("3")
    run.click()
    expect(page.locator(".tape-prompt")).to_contain_text("fine again", timeout=20_000)
    finished(page)


GOOD = ["hi", "ngram", 4, 0, 1, 0, 8, "exact", 0, 0, False, True, True, 0, "en"]


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [(0, "", "empty"), (0, "x" * 100_000, "shorten"), (1, "magic", "possible"), (2, 0, "from 1 to 16"), (2, 2.5, "whole"),
     (2, -1, "from 1 to 16"), (2, 1e6, "from 1 to 16"), (3, -1, "from 0 to 2"), (7, "none", "possible"),
     (11, "on", "on or off"), (13, 2, "from 0 to 1")],
)  # fmt: skip
def test_bad_input_through_the_api(bundled, place, value, words):
    """Clients of the API get the same sentence, and the server lives."""
    client = Client(bundled, verbose=False)
    given = [value if i == place else x for i, x in enumerate(GOOD)]
    with pytest.raises(Exception, match=words):
        client.predict(*given, api_name="/run")


def test_the_api_streams_every_round(bundled):
    """Messages of a run through the API: small, in order, the last one whole and final."""
    client = Client(bundled, verbose=False)
    told = [out for out in client.submit(*GOOD[:6], 60, *GOOD[7:], api_name="/run")]
    messages = [
        json.loads(message) for message, _ in told if isinstance(message, str) and message.startswith('{"run":{')
    ]
    last = messages[-1]
    assert last["final"] and last["end"]["plain"]["tokens"] and last["run"]["badge"] == "measured"
    assert [r["i"] for r in last["rounds"]] == list(range(len(last["rounds"])))
    assert sum(len(r["emit"]) for r in last["rounds"]) == 60
    assert json.loads(told[-1][1])["state"] == "ready"


def test_a_body_of_a_megabyte_is_refused(bundled, page):
    """The guard stands before the real page."""
    answer = page.request.post(f"{bundled}/gradio_api/queue/join", data="x" * 1_200_000)
    assert answer.status == 413
    assert "object-src 'none'" in page.request.get(bundled).headers["content-security-policy"]


def test_what_was_typed_survives_examples_and_reload(visit, bundled):
    """An example replaces the text, 'my text' brings the own one back, and so does opening the page again."""
    page = visit(bundled)
    page.wait_for_timeout(500)
    page.locator("#prompt textarea").fill("my very own words")
    page.wait_for_timeout(300)
    page.get_by_role("button", name="maths", exact=True).click()
    expect(page.locator("#prompt textarea")).to_have_value(re.compile("train"))
    page.get_by_role("button", name="my text", exact=True).click()
    expect(page.locator("#prompt textarea")).to_have_value("my very own words")
    page = visit(bundled)
    expect(page.locator("#prompt textarea")).to_have_value("my very own words")
