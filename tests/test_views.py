"""The views that count - counting, fading, confidence - show what the trace says: every number is added up again here."""

import json
import math
import re
from itertools import pairwise, zip_longest
from pathlib import Path

import browser_support as support
import pytest
from axe_playwright_python.sync_playwright import Axe
from browser_support import ready, scrub, view
from playwright.sync_api import expect

from app import sources
from engine import metrics, trace

ROOT = Path(__file__).parents[1]
FIRST = ROOT / "assets" / "traces" / "first.jsonl"
GLYPHS = {"kept": "✓", "rejected": "✗", "not_reached": "○", "correction": "↩", "bonus": "★"}
QUOTED = [0.7617, 0.6158, 0.5125, 0.4243, 0.3640, 0.3094, 0.2722, 0.2365]  # vLLM issue 48892, as printed there


def rounds_of(records):
    return [r for r in records if r["type"] == "round"]


def fate(rounds, verdict):
    return sum(v["verdict"] == verdict for r in rounds for v in r["verify"])


REAL = rounds_of(trace.read(FIRST))
TOY = rounds_of(support.toy(support.PLAIN + support.PLAIN[1:] * 4))


# ---- toy blocks --------------------------------------------------------------------------------------------------------


def blocks():
    """A block drafter with a Markov head, by hand: one round meets the rule of two meanings, the others all but one part of it.
    The head changes some favourites."""
    rounds = [([], [], "Once")] + [([" of", " problem", "!"], ["kept", "rejected", "not_reached"], " course")] * 5
    records = support.sure(support.toy(rounds, method="dspark", knobs={"k": 3, "markov": True, "threshold": 0.0}))
    for record in rounds_of(records)[1:]:
        course = record["emit"][-1]["token_id"]
        first, second, third = record["draft"]
        record["texts"]["90"] = " no"
        for i, d in enumerate(record["draft"]):
            d |= {"pass": 0, "bias": 0.5 + i, "q_base_top": [[d["token_id"], 0.6], [course, 0.2]], "q_base_rest": 0.2}
        first["q_own_top"] = [[first["token_id"], 0.5], [90, 0.3]]
        second["q_own_top"] = [[course, 0.7], [second["token_id"], 0.2]]  # the head changed its mind
        second["q_base_top"] = [[second["token_id"], 0.4], [course, 0.3]]
        record["verify"][1]["p_own_tok"] = 0.01
    hit, sequential, likely, other, meant = rounds_of(records)[1:]
    sequential["draft"][1]["pass"] = 1
    likely["verify"][1]["p_own_tok"] = 0.05
    other["draft"][0]["q_own_top"][1][1] = 0.09
    meant["draft"][1]["q_base_top"][0][1] = 0.19
    assert hit["i"] == 1
    return records


@pytest.fixture(scope="module")
def heads(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("heads")
    support.keep(blocks(), folder)
    with support.serving(folder) as url:
        yield url


def at_end(visit, url, name):
    page = ready(visit(url))
    scrub(page, 1)
    return page, view(page, name)


# ---- counting ----------------------------------------------------------------------------------------------------------


@pytest.mark.browser
@pytest.mark.parametrize(("place", "rounds"), [("toy", TOY), ("bundled", REAL)])
def test_a5_q15_q17_every_guess_has_one_of_four_fates(visit, request, place, rounds):
    """kept + rejected + not reached (+ pruned: none here) = drafted, with glyph, count and the width of its part of the bar."""
    for each in rounds:
        assert len(each["draft"]) == sum(fate([each], f) for f in ("kept", "rejected", "not_reached"))
    page, count = at_end(visit, request.getfixturevalue(place), "count")
    told = count.locator(".count-fates li")
    shown = [tuple(li.locator(part).inner_text() for part in (".tape-glyph", "b")) for li in told.all()]
    fates = ("kept", "rejected", "not_reached")
    assert shown == [(GLYPHS[f], str(fate(rounds, f))) for f in fates]
    widths = [part.evaluate("i => Number(i.style.flexGrow)") for part in count.locator(".count-bar i").all()]
    assert widths == [fate(rounds, f) for f in fates] and sum(widths) == sum(len(r["draft"]) for r in rounds)
    expect(count.locator(".count-told").first).to_contain_text(
        f"{fate(rounds, 'not_reached')} stood behind a rejection"
    )
    for share in (0, 0.4):  # the numbers are those of the playhead
        scrub(page, share)
        over = int(page.evaluate("document.querySelectorAll('.tape-line:not([hidden])').length"))
        assert told.locator("b").all_inner_texts()[0] in {str(fate(rounds[: over + x], "kept")) for x in (0, 1)}


@pytest.mark.browser
def test_a5_pruned_is_a_fate_of_its_own(visit, tiny, tmp_path):
    """Where a method cut guesses before the check, they are neither rejected nor not reached; a tree is not called exact."""
    rounds = [([], [], "a"), (["b", "c", "d", "e"], ["kept", "pruned", "rejected", "not_reached"], "f")]
    records = support.toy(rounds, knobs={"k": 4})
    records[2]["draft"][1]["parent"] = None
    support.keep(records, tmp_path)
    with support.serving(tmp_path) as url:
        _, count = at_end(visit, url, "count")
        assert count.locator(".count-fates b").all_inner_texts() == ["1"] * 4
        assert count.locator(".count-fates .tape-glyph").last.inner_text().strip("\ufe0e") == "✂"
        expect(count.locator(".count-worth")).to_contain_text("not exact")


@pytest.mark.browser
@pytest.mark.parametrize(("place", "rounds"), [("toy", TOY), ("bundled", REAL)])
def test_a6_q16_g8_the_bonus_and_rows_that_gave_nothing(visit, request, place, rounds):
    """K guesses make K + 1 rows; bonuses, fixes and rows in vain are counted from the records."""
    _, count = at_end(visit, request.getfixturevalue(place), "count")
    k = 4 if place == "bundled" else 3
    makers = [e["maker"] for r in rounds for e in r["emit"]]
    checked = [r for r in rounds if r["draft"]]
    rows, given = sum(r["rows"] for r in checked), sum(len(r["emit"]) for r in checked)
    assert all(r["rows"] == len(r["draft"]) + 1 for r in checked)
    numbers = [int(b) for b in count.locator(".count-told").nth(1).locator("b").all_inner_texts()]
    assert numbers == [k, k + 1, len(checked), makers.count("bonus"), makers.count("correction"), k + 1]
    expect(count.locator(".count-told").nth(2)).to_contain_text(
        f"Of {rows} rows computed for checking, {rows - given} gave no token: {math.floor(100 * (rows - given) / rows + 0.5)} %"
    )
    last, cells = rounds[-1], count.locator(".count-row")
    signs = [cell.locator(".tape-glyph").inner_text().strip("\ufe0e") for cell in cells.all()]
    written = len(last["emit"]) - 1  # the row that wrote the target's own token
    expected = [GLYPHS[v["verdict"]] for v in last["verify"]] + [""] * (k + 1 - len(last["verify"]))
    expected[written] = GLYPHS[last["emit"][-1]["maker"]]
    assert signs == expected


@pytest.mark.browser
@pytest.mark.parametrize(("place", "rounds"), [("toy", TOY), ("bundled", REAL)])
def test_q17_five_meanings_of_one_word(visit, request, place, rounds):
    """Each of the five with its formula filled in and its value."""
    _, count = at_end(visit, request.getfixturevalue(place), "count")
    depth = lambda r, which: {v["slot"] for v in r["verify"] if v["verdict"] in which}  # noqa: E731
    most = max(len(r["draft"]) for r in rounds)
    kept = [sum(i in depth(r, ["kept"]) for r in rounds) for i in range(most)]
    reached = [sum(i in depth(r, ["kept", "rejected"]) for r in rounds) for i in range(most)]
    drafted, tokens = sum(len(r["draft"]) for r in rounds), sum(len(r["emit"]) for r in rounds)
    accepted, tested, passes = sum(kept), sum(reached), len(rounds)
    places = [(a, b) for a, b in zip(kept, reached, strict=True) if b]
    expected = {
        "drafted": (f"{accepted} / {drafted}", accepted / drafted),
        "tested": (f"{accepted} / {tested}", accepted / tested),
        "conditional": (f"({' + '.join(f'{a}/{b}' for a, b in places)}) / {len(places)}",
                        sum(a / b for a, b in places) / len(places)),
        "length": (f"{tokens} / {passes}", tokens / passes),
        "kept": (f"{accepted} / {passes}", accepted / passes),
    }  # fmt: skip
    for name, (made, value) in expected.items():
        row = count.locator(f"tr[data-rate={name}]")
        assert row.locator(".count-made b").inner_text() == made
        assert float(row.locator(".count-value").inner_text()) == pytest.approx(
            value, abs=0.0051 if value > 1 else 0.00051
        )
        assert len(row.locator(".count-who").inner_text()) > 20


@pytest.mark.browser
@pytest.mark.parametrize(("place", "rounds"), [("toy", TOY), ("bundled", REAL)])
def test_f6_q18_worth_of_guess_j_is_survival_at_j(visit, request, place, rounds):
    """The same rounds with their first j guesses, recounted; the bars of conditional acceptance stand still."""
    page, count = at_end(visit, request.getfixturevalue(place), "count")
    figure, slider = count.locator(".is-moved"), count.locator(".count-range")
    k, bars = int(slider.get_attribute("max")), None
    rates = []
    for j in range(k, 0, -1):
        slider.evaluate("(s, j) => { s.value = j; s.dispatchEvent(new Event('input', { bubbles: true })); }", j)
        drafted = sum(min(j, len(r["draft"])) for r in rounds)
        kept = [sum(v["verdict"] == "kept" for v in r["verify"]) for r in rounds]
        accepted = sum(min(j, n) for n in kept)
        tokens = accepted + sum(r["emit"][-1]["maker"] != "draft" or n > j for r, n in zip(rounds, kept, strict=True))
        offered, held = sum(len(r["draft"]) >= j for r in rounds), sum(n >= j for n in kept)
        text = figure.locator(".count-told").inner_text()
        assert "Exact for these rounds" in text
        assert f"{accepted} / {drafted} = " in text and f"{tokens} / {len(rounds)} = {tokens / len(rounds):.2f}" in text
        assert f"in {held} of {offered} rounds" in text
        assert float(re.search(r"worth ([\d.]+) tokens", text)[1]) == pytest.approx(held / offered, abs=0.0051)
        rates.append(accepted / drafted)
        heights = [bar.get_attribute("height") for bar in figure.locator("rect").all()]
        assert bars in (None, heights)
        bars = heights
        assert figure.locator(".count-dot.is-here").count() == 1
    dots = [float(d.get_attribute("cy")) for d in figure.locator(".count-dot").all()]
    zero, one = (float(figure.locator(".curves-rule").nth(i).get_attribute("y1")) for i in (0, 2))
    assert [(zero - y) / (zero - one) for y in dots] == pytest.approx(rates[::-1], abs=0.01)
    slider.focus()
    page.keyboard.press("End")
    assert slider.input_value() == str(k)  # by keyboard too, without moving the playhead
    assert page.locator(".tape-scrub").input_value() == page.locator(".tape-scrub").get_attribute("max")


@pytest.mark.browser
def test_q22_a_high_rate_is_not_speed(visit, bundled):
    """Each recorded method and this run: accepted of tested and tokens per pass; rounds without a guess are counted."""
    _, count = at_end(visit, bundled, "count")
    told = count.locator(".count-name").all_text_contents()
    rows = json.loads(sources.EXPERIMENT.read_text())["runs"]["0"]
    for name in ("ngram", "lm", "dflash", "dspark"):
        accepted, tested, tokens, passes = (
            sum(r[name][x] for r in rows) for x in ("accepted", "tested", "tokens", "passes")
        )
        assert f"{name}: {accepted / tested:.2f}, {tokens / passes:.2f}".replace(" 0.", " .") in told
    assert len(told) == 5
    silent = sum(not r["draft"] for r in REAL)
    expect(count.locator(".is-scatter .count-told")).to_contain_text(f"nothing was guessed in {silent} of {len(REAL)}")


# ---- fading ------------------------------------------------------------------------------------------------------------


def test_f7_the_experiment_is_added_up_once():
    """What the page is given is the sum over the prompts' raw counts, per method and temperature."""
    report, given = json.loads(sources.EXPERIMENT.read_text()), sources.experiment()
    assert given["prompts"] == len(report["prompts"]) and given["date"] == report["date"]
    for heat, rows in report["runs"].items():
        assert given["runs"][heat].keys() == rows[0].keys()
        for name, counts in given["runs"][heat].items():
            for key in ("passes", "tokens", "drafted", "tested", "accepted"):
                assert counts[key] == sum(r[name][key] for r in rows)
            for key in ("offered", "reached", "kept"):
                assert counts[key] == [
                    sum(r[name][key][i] if i < len(r[name][key]) else 0 for r in rows) for i in range(len(counts[key]))
                ]
            assert sum(counts["kept"]) == counts["accepted"] and sum(counts["offered"]) == counts["drafted"]


@pytest.mark.browser
def test_f7_a_panel_per_method_with_shared_axes(visit, bundled):
    """Guess 1 against the tail, with counts; the toggle is the one of the run's chart, temperature has its own."""
    page, fade = at_end(visit, bundled, "fade")
    runs = json.loads(sources.EXPERIMENT.read_text())["runs"]
    for heat in ("0", "1"):
        fade.get_by_role("button", name=f"temperature {heat}", exact=True).click()
        for mode, whole in (("survival", "offered"), ("conditional", "reached")):
            fade.locator(".is-decay").get_by_role("button", name=mode).click()
            panels = {p.get_attribute("data-method"): p for p in fade.locator(".is-method").all()}
            assert panels.keys() == runs[heat][0].keys() - {"plain"}
            for name, panel in panels.items():
                counted = [r[name] for r in runs[heat]]
                n = [sum(places) for places in zip_longest(*(c[whole] for c in counted), fillvalue=0)]
                hits = [sum(places) for places in zip_longest(*(c["kept"] for c in counted), n, fillvalue=0)]
                hits = [both - m for both, m in zip(hits, n, strict=True)]  # as long as what they are shares of
                first, tail = panel.locator(".curves-note span").all_inner_texts()
                assert first.endswith(f"({hits[0]}/{n[0]})") and tail.endswith(f"({sum(hits[1:])}/{sum(n[1:])})")
                assert float(first.split()[2]) == pytest.approx(hits[0] / n[0], abs=0.0051)
                assert float(tail.split()[2]) == pytest.approx(sum(hits[1:]) / sum(n[1:]), abs=0.0051)
                bars = [float(bar.get_attribute("height")) for bar in panel.locator("rect").all()]
                assert bars == pytest.approx([120 * h / m for h, m in zip(hits, n, strict=True)], abs=0.01)
            places = {tuple(p.locator(".curves-place").all_text_contents()) for p in panels.values()}
            assert places == {tuple("12345678")}
    expect(fade.locator(".fade-methods .view-badge")).to_contain_text("recorded on")


@pytest.mark.browser
def test_f3_the_quoted_server_log_flips(visit, toy):
    """.762 .616 ... becomes .762 .808 ... by key d; it says that it is quoted, and from where."""
    page, fade = at_end(visit, toy, "fade")
    decay = fade.locator(".is-decay")
    decay.get_by_role("button", name="quoted").click()
    numbers = lambda: [float(x) for x in decay.locator(".curves-count").all_text_contents()]  # noqa: E731
    assert numbers() == pytest.approx(QUOTED, abs=0.00051)
    expect(decay.locator(".curves-note")).to_contain_text("Quoted, not measured here: vLLM issue 48892")
    page.keyboard.press("Escape")
    page.locator("body").evaluate("b => document.activeElement.blur()")
    page.keyboard.press("d")
    assert numbers() == [0.762, 0.808, 0.832, 0.828, 0.858, 0.850, 0.880, 0.869]
    assert numbers() == pytest.approx([QUOTED[0], *(b / a for a, b in pairwise(QUOTED))], abs=0.00051)
    assert decay.locator(".curves-whisker").count() == 0
    decay.get_by_role("button", name="this run").click()
    assert decay.locator(".curves-whisker").count() > 0


def collisions(rounds):
    """The rule of F4, written down a second time."""
    for r in rounds:
        for v, d in zip(r["verify"], r["draft"], strict=True):
            if v["verdict"] != "rejected" or d["parent"] is None or "q_own_top" not in d:
                continue
            before = r["draft"][d["parent"]]
            block = dict(map(tuple, d.get("q_base_top", d["q_own_top"]))).get(d["token_id"], 0)
            others = [i for i, x in before["q_own_top"] if i != before["token_id"] and x >= 0.1]
            if before["pass"] == d["pass"] and block >= 0.2 and v["p_own_tok"] < 0.05 and others:
                yield r["i"], v["slot"], before["token_id"], others[0], d["token_id"]


@pytest.mark.browser
@pytest.mark.parametrize("place", ["heads", "bundled"])
def test_f4_two_meanings_met_only_where_the_rule_says(visit, request, place):
    """Exactly the places of the rule are listed; a click goes there and chooses the refused token."""
    rounds = rounds_of(blocks()) if place == "heads" else REAL
    expected = list(collisions(rounds))
    assert len(expected) == 1 and fate(rounds, "rejected") > 4
    page, fade = at_end(visit, request.getfixturevalue(place), "fade")
    buttons = fade.locator(".fade-place")
    assert buttons.count() == len(expected)
    expect(fade.locator(".fade-meanings .fade-told")).to_contain_text(
        f"Of {fate(rounds, 'rejected')} rejected guesses, 1"
    )
    for button, (i, slot, *ids) in zip(buttons.all(), expected, strict=True):
        sign = {" ": "␠", "\n": "⏎"}
        pieces = ["".join(sign.get(c, c) for c in rounds[i]["texts"][str(x)]) for x in ids]
        assert button.locator("code").all_text_contents() == [*pieces, pieces[0]]
        button.click()
        expect(page.locator(".tape-place")).to_contain_text(f"round {i + 1} of")
        shown = page.locator(".tape-stage .is-shown")
        assert (shown.get_attribute("data-round"), shown.get_attribute("data-slot")) == (str(i), str(slot))
    scrub(page, 0)
    assert buttons.count() == 0


@pytest.mark.browser
def test_f4_no_place_is_said_in_words(visit, toy):
    """A drafter that is no block cannot guess for two tokens at once, and the page says so."""
    _, fade = at_end(visit, toy, "fade")
    assert fade.locator(".fade-place").count() == 0
    expect(fade.locator(".fade-meanings .fade-told")).to_contain_text("every guess knew the tokens before it")
    expect(fade.locator(".fade-head .fade-told")).to_contain_text("no Markov head")


@pytest.mark.browser
@pytest.mark.parametrize("place", ["heads", "bundled"])
def test_f5_the_same_block_with_the_head_on_and_off(visit, request, place):
    """Favourites off and on, biases and the token they come from, differing places listed; off shows the backbone alone."""
    rounds = rounds_of(blocks()) if place == "heads" else REAL
    page, fade = at_end(visit, request.getfixturevalue(place), "fade")
    for back in range(3):
        last, before = rounds[-1 - back], rounds[-2 - back]
        text = lambda r, i: "".join({" ": "␠", "\n": "⏎"}.get(c, c) for c in r["texts"][str(i)])  # noqa: E731
        cells = lambda row: fade.locator(f".is-{row} .fade-cell")  # noqa: E731
        for row, field in (("off", "q_base_top"), ("on", "q_own_top")):
            favourites = cells(row).locator(".tape-piece").all_text_contents()
            assert favourites == [text(last, d[field][0][0]) for d in last["draft"]]
        previous = [text(before, before["emit"][-1]["token_id"])] + [
            text(last, d["token_id"]) for d in last["draft"][:-1]
        ]
        assert fade.locator(".fade-last").all_text_contents() == previous
        assert [float(b) for b in fade.locator(".fade-arrow b").all_inner_texts()] == pytest.approx(
            [d["bias"] for d in last["draft"]], abs=0.0051
        )
        differ = [d["slot"] for d in last["draft"] if d["q_base_top"][0][0] != d["q_own_top"][0][0]]
        marked = fade.locator(".is-on .fade-cell").evaluate_all(
            "all => all.map(c => c.classList.contains('is-changed'))"
        )
        assert [i for i, changed in enumerate(marked) if changed] == differ
        if differ:
            expect(fade.locator(".fade-head .fade-told")).to_contain_text(
                "(guess " + ", ".join(str(i + 1) for i in differ)
            )
        page.locator("body").evaluate("b => document.activeElement.blur()")
        page.keyboard.press("m")
        assert not fade.locator(".is-on").is_visible() and not fade.locator(".fade-arrow").first.is_visible()
        assert fade.locator(".fade-line.is-off").is_visible()
        expect(fade.locator(".fade-head .fade-told")).to_contain_text("every bias is 0")
        page.keyboard.press("m")
        assert fade.locator(".is-on").is_visible()
        page.keyboard.press("ArrowUp")


# ---- confidence --------------------------------------------------------------------------------------------------------


def test_g3_reliability_by_hand():
    """Bins, ECE, Brier and AUROC of a case small enough to add up on paper; nothing to measure gives None."""
    told = metrics.reliability([(0.1, False), (0.12, True), (0.96, True), (1.0, True), (0.5, False)])
    filled = {i: (b["n"], b["kept"]) for i, b in enumerate(told["bins"]) if b["n"]}
    assert filled == {2: (2, 1), 10: (1, 0), 19: (2, 2)} and len(told["bins"]) == 20
    assert told["ece"] == pytest.approx((abs(0.22 - 1) + 0.5 + abs(1.96 - 2)) / 5)
    assert told["brier"] == pytest.approx((0.01 + 0.88**2 + 0.04**2 + 0 + 0.25) / 5)
    assert told["auroc"] == pytest.approx(5 / 6)  # of six pairs only (.12 kept, .5 rejected) is the wrong way round
    assert metrics.reliability([(0.5, True), (0.5, False)])["auroc"] == 0.5
    assert metrics.reliability([]) == {"n": 0, "bins": [{"n": 0, "kept": 0, "said": 0.0}] * 20, "ece": None, "brier": None,
                                       "auroc": None}  # fmt: skip
    assert metrics.reliability([(0.5, True)])["auroc"] is None


def pairs_of(rounds, depth=None):
    return [
        (d["confidence"], v["verdict"] == "kept")
        for r in rounds for d, v in zip(r["draft"], r["verify"], strict=True)
        if v["verdict"] != "not_reached" and depth in (None, d["depth"])
    ]  # fmt: skip


@pytest.mark.browser
def test_g3_the_page_measures_what_the_engine_does(page):
    """The page's fold equals metrics.reliability on the bundled run and at the edges of bins, whole and by position."""
    for name in ("base", "run", "chart", "sure"):
        page.add_script_tag(path=str(ROOT / "assets" / f"{name}.js"))
    cases = [pairs_of(REAL), [], [(i / 20, i % 3 == 0) for i in range(21)], [(0.29, True), (0.58, False), (0.58, True)]]
    for pairs in cases:
        got, told = page.evaluate("pairs => reliability(pairs)", pairs), metrics.reliability(pairs)
        for name in ("n", "ece", "brier", "auroc"):
            assert got[name] == (told[name] if told[name] is None else pytest.approx(told[name])), name
        assert [list(b.values()) for b in got["bins"]] == [pytest.approx(list(b.values())) for b in told["bins"]]
    for depth in (0, 1, 4):
        got = page.evaluate("([rounds, depth]) => testedPairs(rounds, depth)", [REAL, depth])
        assert [tuple(pair) for pair in got] == pairs_of(REAL, depth or None)


@pytest.mark.browser
def test_g3_reliability_diagram_of_the_run(visit, bundled):
    """Points, counts and figures are the reference's; few cases are called few; a position can be chosen."""
    _, sure = at_end(visit, bundled, "sure")
    figure = sure.locator(".is-reliable")
    for depth in (None, 1, 3):
        figure.locator("select").select_option(str(depth or 0))
        told = metrics.reliability(pairs_of(REAL, depth))
        bins = [b for b in told["bins"] if b["n"]]
        assert figure.locator(".curves-count").all_text_contents() == [str(b["n"]) for b in bins]
        xs, ys = ([float(c.get_attribute(a)) for c in figure.locator(".sure-bin").all()] for a in ("cx", "cy"))
        assert xs == pytest.approx([30 + 322 * b["said"] / b["n"] for b in bins], abs=0.01)
        assert ys == pytest.approx([128 - 120 * b["kept"] / b["n"] for b in bins], abs=0.01)
        shown = [float(dd) for dd in figure.locator(".sure-figures dd").all_inner_texts()]
        assert shown == pytest.approx([told[x] for x in ("ece", "brier", "auroc")], abs=0.00051)
        expect(figure.locator(".sure-about")).to_contain_text(f"{told['n']} tested guesses: that is little")


def cut(rounds, threshold):
    """(guesses not sent, accepted ones among them, rows left, rows of those without a token)."""
    held = lost = rows = wasted = 0
    for r in (r for r in rounds if r["draft"]):
        at = next((i for i, d in enumerate(r["draft"]) if d["confidence"] < threshold), len(r["draft"]))
        kept = sum(v["verdict"] == "kept" for v in r["verify"])
        held, lost, rows = held + len(r["draft"]) - at, lost + max(0, kept - at), rows + 1 + at
        wasted += at - min(kept, at) + (r["emit"][-1]["maker"] == "draft" and kept <= at)
    return held, lost, rows, wasted


@pytest.mark.browser
@pytest.mark.parametrize("place", ["heads", "bundled"])
def test_g2_g8_a_threshold_counts_what_it_saves_and_loses(visit, request, place):
    """By range input, by key and by dragging: both numbers are those of a recount; so is the share of rows in vain."""
    rounds = rounds_of(blocks()) if place == "heads" else REAL
    page, sure = at_end(visit, request.getfixturevalue(place), "sure")
    slider, told = sure.locator(".sure-range"), sure.locator(".sure-told")
    drafted, accepted = sum(len(r["draft"]) for r in rounds), fate(rounds, "kept")
    percent = lambda part, whole: f"{math.floor(100 * part / whole + 0.5)}\u00a0%"  # noqa: E731

    def check():
        threshold = float(slider.input_value())
        held, lost, rows, wasted = cut(rounds, threshold)
        _, _, whole, before = cut(rounds, 0)
        shown = [held, drafted, lost, accepted, percent(before, whole), whole, percent(wasted, rows), rows]
        assert told.locator("b").all_inner_texts() == [str(x) for x in shown]
        line = float(sure.locator(".curves-threshold").get_attribute("y1"))
        assert line == pytest.approx(128 - 120 * threshold, abs=0.01)
        return held

    assert float(slider.input_value()) == 0.3
    check()
    for value in (0, 0.48, 0.6, 0.98, 1):
        slider.evaluate("(s, x) => { s.value = x; s.dispatchEvent(new Event('input', { bubbles: true })); }", value)
        assert check() > 0 if value else check() == 0, value
    assert sure.locator(".curves-dot.is-held").count() == sure.locator(".is-sure .curves-dot").count()
    slider.focus()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    assert float(slider.input_value()) == pytest.approx(0.95)
    check()
    field = sure.locator(".is-sure svg")
    field.scroll_into_view_if_needed()
    box, unit = field.bounding_box(), field.bounding_box()["height"] / 168
    page.mouse.move(box["x"] + 50, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 60, box["y"] + (128 - 120 * 0.5) * unit)
    page.mouse.up()
    assert float(slider.input_value()) == pytest.approx(0.5, abs=0.02)
    check()
    expect(sure.locator(".is-sure .sure-about")).to_contain_text("this run sent every guess")


@pytest.mark.browser
def test_g2_a_run_with_a_threshold_says_what_it_cannot_know(visit, tiny, tmp_path):
    """The slider starts at the run's own threshold; the page says that guesses below it are unknown."""
    records = support.sure(support.toy(support.BLOCK, method="dspark", knobs={"k": 3, "threshold": 0.45}))
    support.keep(records, tmp_path)
    with support.serving(tmp_path) as url:
        _, sure = at_end(visit, url, "sure")
        assert sure.locator(".sure-range").input_value() == "0.45"
        about = sure.locator(".is-sure .sure-about")
        expect(about).to_contain_text("held back guesses below 0.45")
        sure.locator(".sure-range").fill("0.2")
        expect(about).to_contain_text("for a lower threshold the trace knows nothing")


@pytest.mark.browser
@pytest.mark.parametrize("name", ["count", "fade", "sure"])
def test_views_fit_a_phone(browser, bundled, name):
    """360 px wide: no sideways scroll in either language."""
    context = browser.new_context(viewport={"width": 360, "height": 780}, locale="en-US")
    page = context.new_page()
    for lang in ("en", "zh"):
        page.goto(f"{bundled}/?lang={lang}")
        page.wait_for_selector(".tape-line", state="attached")
        scrub(page, 1)
        view(page, name)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        wide = """name => [...document.querySelectorAll(`#view-${name} *`)].filter(e => !e.closest(".fade-scroll, svg") &&
            e.getBoundingClientRect().right > 361).map(e => e.className)"""
        assert page.evaluate(wide, name) == []
    context.close()


@pytest.mark.browser
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("width", [1440, 390])
def test_r5_views_do_not_move_while_the_run_plays(page, visit, bundled, width, lang):
    """What stands below a changing sentence stays where it is, all through the run."""
    page.set_viewport_size({"width": width, "height": 900})
    page = visit(f"{bundled}/?lang={lang}")
    scrub(page, 1)
    tops = """name => { const box = document.getElementById("view-" + name), top = box.getBoundingClientRect().top;
        return [...box.querySelectorAll(":scope > *, figure, p, tr")].map(e =>
            [e.tagName, Math.round(e.getBoundingClientRect().top - top)]); }"""
    for name in ("count", "fade", "sure"):
        view(page, name)
        seen = []
        for share in (0.1, 0.35, 0.6, 0.8, 1):
            scrub(page, share)
            seen.append(page.evaluate(tops, name))
        assert all(places == seen[-1] for places in seen), [
            (a, b) for places in seen for a, b in zip(places, seen[-1], strict=False) if a != b
        ][:4]


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_u17_axe_finds_nothing_serious_in_the_views(visit, bundled, theme):
    """No serious or critical finding in any of the three, in both themes."""
    page = ready(visit(f"{bundled}/?__theme={theme}"))
    scrub(page, 1)
    for name in ("count", "fade", "sure"):
        view(page, name)
        found = [v for v in Axe().run(page).response["violations"] if v["impact"] in ("serious", "critical")]
        assert not found, [(name, v["id"], [n["html"][:120] for n in v["nodes"]][:4]) for v in found]
