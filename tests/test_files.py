"""Files: what is saved is what was recorded and seen, what is opened is checked first; and the text beside the pictures."""

import csv
import io
import itertools
import json
import re
from pathlib import Path

import browser_support as support
import pytest
from browser_support import ask, finished, ready, scrub
from playwright.sync_api import expect

# fixtures of the browser tests
from app import sources
from engine import trace

# ruff: noqa: F811
browser = pytest.mark.browser
CSS = Path(__file__).parents[1] / "assets" / "tape.css"
TOY = support.toy(support.PLAIN + support.PLAIN[1:] * 4)
GLYPHS = {"kept": "✓", "rejected": "✗", "not_reached": "○", "correction": "↩\ufe0e", "bonus": "★", "plain": ""}


def saved(page, name, folder):
    """Press a button of the keep row; the file it gives."""
    with page.expect_download() as waiting:
        page.locator(f"[data-keep={name}]").click()
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def opened(page, path):
    page.locator(".keep input[type=file]").set_input_files(path)


def seen(page):
    """All that the page tells of a run, badge aside."""
    scrub(page, 1)
    page.locator(".tape-log").evaluate("log => { log.open = true; }")
    page.wait_for_timeout(100)
    parts = (
        ".tape-about",
        ".tape-prompt",
        ".tape-text",
        ".tape-grid",
        ".tape-stats",
        ".tape-sentence",
        ".tape-entries",
        ".keep-hash",
    )
    return {part: page.locator(part).text_content() for part in parts}


def written(rounds):
    """(round, slot, token id, fate) of every token of a trace."""
    for r in rounds:
        yield from (
            (r["i"], str(d["slot"]), d["token_id"], v["verdict"]) for d, v in zip(r["draft"], r["verify"], strict=True)
        )
        yield from ((r["i"], "own", e["token_id"], e["maker"]) for e in r["emit"] if e["maker"] != "draft")


# ---- out -------------------------------------------------------------------------------------------------------------


@browser
def test_m2_p1_a13_a_live_run_s_file_holds_the_records_and_replays_the_same(visit, bundled, tmp_path, monkeypatch):
    """The saved lines are the engine's records, ids included; the validator agrees; opened again, the page tells the same."""
    kept, records = [], sources._records
    monkeypatch.setattr(sources, "_records", lambda settings: tee(records(settings), kept))
    page = ready(visit(bundled))
    ask(page, "ab ab ab </script> 你好 🦊", 40)
    expect(page.locator(".tape-badge")).to_contain_text("measured", timeout=60_000)
    finished(page)
    path = saved(page, "trace", tmp_path)
    lines = trace.read(path)
    assert lines == [record for record in kept if record["type"] != "reading"]
    assert [record["type"] for record in lines] == ["run", *["round"] * (len(lines) - 2), "end"]
    trace.validate(lines)
    assert trace.fingerprint(lines[0], lines[1:-1]) == lines[-1]["hash"]
    live = seen(page)
    page = ready(visit(bundled))
    opened(page, path)
    expect(page.locator(".keep-note")).to_contain_text("Opened")
    expect(page.locator(".tape-badge")).to_contain_text("recorded on")
    assert seen(page) == live


def tee(records, kept):
    for record in records:
        kept.append(json.loads(json.dumps(record)))
        yield record


@browser
def test_m2_unknown_fields_survive_a_round_trip(visit, toy, tmp_path):
    """What a newer program wrote beside the known fields is in the file that is saved from an opened one."""
    records = support.toy(support.BLOCK, badge="measured", novelty={"a": [1, "<b>"]})
    for record in records[1:]:
        record["later"] = {"deep": [record.get("i"), None]}
    page = visit(toy)
    opened(page, support.keep(records, tmp_path, "newer.jsonl"))
    expect(page.locator(".keep-note")).to_contain_text("Opened newer.jsonl: 4 rounds.")
    records[0]["badge"] = "recorded"
    assert trace.read(saved(page, "trace", tmp_path)) == records


@browser
def test_m2_the_table_has_one_line_per_token(visit, hostile, tmp_path):
    """CSV: every guess and every token of the target's own with the trace's values; text is JSON, never a formula."""
    rounds = [([text], ["rejected"], text) for text in ("=1+1", '"a", b', "\n", [240, 159])]
    records = support.sure(support.toy(rounds))
    page = visit(hostile)
    opened(page, support.keep(records, tmp_path))
    expect(page.locator(".keep-note")).to_contain_text("Opened")
    data = saved(page, "table", tmp_path).read_bytes().decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(data, newline="")))
    told = records[1:-1]
    texts = {int(k): v for r in told for k, v in r["texts"].items()}
    assert [(int(r["round"]) - 1, int(r["token_id"]), json.loads(r["text"])) for r in rows] == [
        (i, token, texts[token]) for i, _, token, _ in written(told)
    ]
    assert [r["verdict"] or r["maker"] for r in rows] == [fate for *_, fate in written(told)]
    for row, v, d in zip(rows[::2], (r["verify"][0] for r in told), (r["draft"][0] for r in told), strict=True):
        assert [float(row[name]) for name in ("p", "q", "chance", "u", "confidence")] == [
            v["p_tok"], d["q_tok"], v["ratio"], v["u"], d["confidence"]
        ]  # fmt: skip
    assert not [cell for row in rows for cell in row.values() if cell[:1] in ("=", "+", "@")]


@browser
def test_m3_one_file_plays_offline(visit, hostile, browser, tmp_path):
    """From disk, the network cut: it plays, shows the same tokens, speaks both languages, asks nobody, runs no text."""
    page = visit(hostile)
    path = saved(page, "page", tmp_path)
    live = seen(page)
    context = browser.new_context(offline=True, locale="en-US")
    alone, asked, bad = context.new_page(), [], []
    alone.on("request", lambda r: asked.append(r.url))
    alone.on("dialog", lambda d: (bad.append(d.message), d.dismiss()))
    alone.on("pageerror", lambda e: bad.append(str(e)))
    alone.on("console", lambda m: bad.append(m.text) if m.type in ("error", "warning") else None)
    alone.goto(path.as_uri())
    alone.wait_for_selector(".tape-text span:not([hidden])", timeout=5000)
    before = int(alone.locator(".tape-scrub").input_value())
    expect(alone.locator(".tape-scrub")).not_to_have_value(str(before), timeout=8000)
    assert int(alone.locator(".tape-scrub").input_value()) > before
    assert seen(alone) == live
    assert alone.title() == "SpecScope: " + " ".join(support.HOSTILE)[:60]
    alone.locator("nav select").select_option("zh")
    expect(alone.locator(".tape-play")).to_contain_text("重播")
    again = saved(alone, "page", tmp_path / "again")
    assert trace.read(saved(alone, "trace", tmp_path))[1:] == [r for r in hostile_records() if r["type"] != "run"]
    assert (
        again.read_text(encoding="utf-8").count("</script>") == path.read_text(encoding="utf-8").count("</script>") == 2
    )
    assert set(re.findall(r"https?://[^\s\"]+", path.read_text(encoding="utf-8"))) == {"http://www.w3.org/2000/svg"}
    assert asked == [path.as_uri()] and not bad
    context.close()


def hostile_records():
    return support.toy([([piece, piece], ["kept", "rejected"], piece) for piece in support.HOSTILE])


@browser
def test_m4_drawing_and_picture_equal_the_page(visit, toy, tmp_path):
    """At the playhead, in the middle of a round: the drawing's tokens, glyphs, words and sentence are the page's."""
    page = ready(visit(toy))
    for share in (0.55, 1):
        scrub(page, share)
        on_page = page.locator(".tape-line:not([hidden]) [data-round], .tape-stage [data-round]").evaluate_all(
            """cells => cells.map(c => [c.dataset.round, c.dataset.slot, (c.querySelector(".tape-glyph").textContent
                + (c.querySelector(".tape-piece")?.textContent ?? "")), [...c.classList].find(n => n.startsWith("is-")
                && !["is-own", "is-shown"].includes(n))])"""
        )
        path = saved(page, "drawing", tmp_path)
        drawing = page.evaluate(
            """text => { const d = new DOMParser().parseFromString(text, "image/svg+xml");
            if (d.querySelector("parsererror")) throw "no XML";
            return { chips: [...d.querySelectorAll("[data-round]")].map(g => [g.dataset.round, g.dataset.slot,
                [...g.querySelectorAll("text")].map(t => t.textContent).join(""), g.getAttribute("class")]),
              text: [...d.querySelectorAll("svg > text")].map(t => t.textContent).join(""),
              legend: [...d.querySelectorAll(".legend")].map(g => [...g.querySelectorAll("text")].map(t => t.textContent)),
              times: [...d.querySelectorAll(".round")].map(g => g.lastElementChild.textContent),
              fills: [...new Set([...d.querySelectorAll("[data-round] text")].map(t => t.getAttribute("fill")))] }; }""",
            path.read_text(encoding="utf-8"),
        )
        assert drawing["chips"] == on_page and len(on_page) > 20
        squeezed = re.sub(r"\s", "", drawing["text"])
        for part in (".tape-sentence", ".tape-prompt"):
            assert re.sub(r"\s", "", page.locator(part).inner_text()) in squeezed
        assert [glyph for glyph, _ in drawing["legend"]] == [GLYPHS[f] for f in list(GLYPHS)[:5]]
        assert [word for _, word in drawing["legend"]] == ["accepted", "rejected", "not reached", "correction", "bonus"]
        assert {"#0064a0", "#b34700", "#1b1b2f"} <= set(drawing["fills"])
        totals = page.locator(".tape-line:not([hidden]) .tape-total").all_inner_texts()
        assert drawing["times"][: len(totals)] == totals
    data = saved(page, "picture", tmp_path).read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (
        float(re.search(rf' {side}="([\d.]+)"', path.read_text(encoding="utf-8"))[1]) for side in ("width", "height")
    )
    assert [int.from_bytes(data[at : at + 4]) for at in (16, 20)] == [int(2 * width), int(2 * height)]
    inked = page.evaluate(
        """async data => { const b = await createImageBitmap(new Blob([Uint8Array.from(data)])), found = new Set();
        const p = new OffscreenCanvas(b.width, b.height).getContext("2d"); p.drawImage(b, 0, 0);
        const d = p.getImageData(0, 0, b.width, b.height).data;
        for (let i = 0; i < d.length; i += 4) found.add(d.slice(i, i + 3).join()); return [...found]; }""",
        list(data),
    )
    assert {"0,100,160", "179,71,0", "27,27,47", "255,255,255"} <= set(inked)


# ---- in --------------------------------------------------------------------------------------------------------------


def broken(change):
    records = json.loads(json.dumps(support.toy(support.BLOCK)))
    change(records)
    return "".join(json.dumps(record) + "\n" for record in records)


def at(place, *path, to):
    """A change: the value at a path of a record becomes another, or goes away."""

    def change(records):
        here = records[place]
        for key in path[:-1]:
            here = here[key]
        here[path[-1]] = to
        if to is None:
            del here[path[-1]]

    return broken(change)


BAD = {
    "nothing": ("", "the file is empty"),
    "prose": ("Dear reader,\n", "this is no trace file"),
    "picture": ("\x89PNG\r\n\x1a\n\0\0", "this is no trace file"),
    "list": ("[1, 2]\n", "this is no trace file"),
    "null": ("null\n", "this is no trace file"),
    "future": (at(0, "schema", to=2), "this is no trace file"),
    "headless": (broken(lambda r: r.pop(0)), "this is no trace file"),
    "alone": (broken(lambda r: r.__delitem__(slice(1, None))), "holds no round"),
    "cut": (broken(lambda r: None)[:-10], "line 6 is no record"),
    "gap": (broken(lambda r: r.pop(2)), "line 3 should be round 2"),
    "order": (broken(lambda r: r.insert(1, r.pop(2))), "line 2 should be round 1"),
    "after": (broken(lambda r: r.append(r[1])), "line 7 is no record"),
    "models": (at(0, "models", to={}), "line 1, “models.target”"),
    "endless": (at(0, "knobs", to={"k": 10**9}), "line 1, “knobs”"),
    "verdict": (at(2, "verify", 0, "verdict", to="constructor"), "line 3, “verify”"),
    "number": (at(2, "draft", 0, "q_top", to=[["x", "y"]]), "line 3, “draft”"),
    "time": (at(2, "t_draft", to="1e9"), "line 3, “t_draft”"),
    "missing": (at(3, "counts", to=None), "line 4, “counts”"),
    "texts": (at(3, "texts", to={"0": {"a": 1}}), "line 4, “texts”"),
    "slots": (at(2, "draft", 1, "slot", to=7), "line 3, “slot”"),
}


@browser
def test_m2_what_is_no_trace_is_refused_in_words(visit, toy, tmp_path):
    """Each wrong file gets its sentence, and nothing on screen is lost; the next good file opens."""
    page = ready(visit(toy))
    scrub(page, 0.5)
    page.locator(".tape-line .is-kept").first.click()
    before = [page.locator(part).text_content() for part in (".tape-body", ".tape-place", ".tape-card")]
    for name, (text, sentence) in BAD.items():
        (tmp_path / f"{name}.jsonl").write_text(text, encoding="latin-1" if name == "picture" else "utf-8")
        opened(page, tmp_path / f"{name}.jsonl")
        expect(page.locator(".keep-note")).to_contain_text(sentence)
        assert page.locator(".keep-note").inner_text().startswith("Not opened: "), name
    (tmp_path / "huge.jsonl").write_bytes(b"x" * 21_500_000)
    opened(page, tmp_path / "huge.jsonl")
    expect(page.locator(".keep-note")).to_have_text("Not opened: the file has 21.5 MB; at most 20 MB are possible.")
    assert before == [page.locator(part).text_content() for part in (".tape-body", ".tape-place", ".tape-card")]
    opened(page, support.keep(support.toy(support.BLOCK), tmp_path, "good.jsonl"))
    expect(page.locator(".keep-note")).to_have_text("Opened good.jsonl: 4 rounds.")


@browser
def test_m2_a_dropped_file_opens_as_a_recording_of_untrusted_text(visit, toy):
    """Dropping works like choosing; the badge says recorded whatever the file claims, and its text is only text."""
    evil = "<img src=x onerror=alert(1)>"
    records = support.toy([([evil], ["rejected"], evil)] * 2, badge=evil, id=evil, method=evil, machine=evil, rule=evil,
                          prompt={"text": evil, "raw": False}, knobs={"k": 2, evil: evil})  # fmt: skip
    for record in records[1:3]:
        record |= {"note": evil, "done": evil}
    page, dialogs = ready(visit(toy)), []
    page.on("dialog", lambda d: (dialogs.append(d.message), d.dismiss()))
    page.evaluate(
        """text => { const data = new DataTransfer(); data.items.add(new File([text], "<b>.jsonl"));
        const tape = document.querySelector(".tape-grid"), all = { bubbles: true, cancelable: true, dataTransfer: data };
        tape.dispatchEvent(new DragEvent("dragover", all)); tape.dispatchEvent(new DragEvent("drop", all)); }""",
        "".join(json.dumps(record) + "\n" for record in records),
    )
    expect(page.locator(".keep-note")).to_have_text("Opened <b>.jsonl: 2 rounds.")
    expect(page.locator(".tape-badge")).to_have_text(f"recorded on {evil}, 2026-01-01")
    seen(page)
    assert page.locator(".tape img").count() == 0 and not dialogs
    assert "undefined" not in page.locator(".tape").inner_text()


@browser
def test_m2_an_opened_file_is_not_pushed_aside_by_a_run_that_goes_on(visit, bundled, tmp_path):
    """What still arrives of a run stays away from an opened file; the next run is shown again."""
    page = ready(visit(bundled))
    ask(page, "going on", 300, "plain")
    expect(page.locator(".tape-prompt")).to_contain_text("going on", timeout=60_000)
    opened(page, support.keep(support.toy(support.BLOCK), tmp_path))
    expect(page.locator(".keep-note")).to_contain_text("Opened")
    page.wait_for_selector("#run:not([disabled])", timeout=60_000)
    assert "toy prompt" in page.locator(".tape-prompt").inner_text() and page.locator(".tape-line").count() == 4
    ask(page, "once more", 8)
    expect(page.locator(".tape-prompt")).to_contain_text("once more", timeout=20_000)
    finished(page)


# ---- text beside pictures --------------------------------------------------------------------------------------------


@browser
def test_n4_r26_the_log_has_one_sentence_per_round(visit, toy):
    """The list's sentences are those of the live region, one for each round that is over, in both languages."""
    page = ready(visit(toy))
    rounds = len(TOY) - 2
    live = page.locator(".tape-sentence")
    assert live.get_attribute("aria-live") == "polite" and live.get_attribute("role") == "status"
    page.locator(".tape-log summary").click()
    scrub(page, 0)
    assert page.locator(".tape-entries li").count() == 0
    said = []
    for _ in range(rounds):
        page.locator(".player-step.round_on").click()
        said.append(live.text_content())
        assert page.locator(".tape-entries li").count() == len(said)
    entries = page.locator(".tape-entries li").all_text_contents()
    assert entries == said and len(set(said)) == rounds
    for i, (sentence, r) in enumerate(zip(said, TOY[1:-1], strict=True), 1):
        assert sentence.startswith(f"Round {i}: ")
        kept = sum(e["maker"] == "draft" for e in r["emit"])
        assert not r["draft"] or f"accepted {kept}" in sentence
    page.get_by_label("中文").check()
    expect(page.locator(".tape-entries li").first).to_contain_text("第 1 轮")
    assert page.locator(".tape-entries li").count() == rounds


@browser
def test_a8_signs_come_and_go_and_nothing_moves(visit, toy, tmp_path):
    """The toggle hides and shows the signs of blanks and bytes; tokens, texts and every place stay what they are."""
    page = ready(visit(toy))
    scrub(page, 1)
    tokens = ".tape-line:not([hidden]) [data-round], .tape-stage [data-round], .tape-text span:not([hidden])"
    measure = f"""() => [...document.querySelectorAll("{tokens}")].map(c => {{ const b = c.getBoundingClientRect();
        return [b.x + scrollX, b.y + scrollY, b.width, b.height, c.textContent]; }})"""
    looks = """() => [".tape-line .space", ".tape-line .blank", ".tape-line .hex", ".tape-text .blank"].map(s => {
        const look = getComputedStyle(document.querySelector(s));
        return [look.visibility, look.color, look.borderBottomColor].join(); })"""
    places, on = page.evaluate(measure), page.evaluate(looks)
    button = page.locator(".tape-signs")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert page.evaluate(measure) == places
    assert all(a != b for a, b in zip(page.evaluate(looks), on, strict=True))
    plain = saved(page, "drawing", tmp_path).read_text(encoding="utf-8")
    button.click()
    assert page.evaluate(looks) == on and page.evaluate(measure) == places
    signed = saved(page, "drawing", tmp_path).read_text(encoding="utf-8")
    assert signed.count("v4h6v-4") > 5 and "v4h6v-4" not in plain
    page = ready(visit(f"{toy}/?signs=0"))
    assert page.locator(".tape-signs").get_attribute("aria-pressed") == "false"


@browser
def test_n2_without_colour_no_fact_is_lost(visit, toy):
    """In grey, each outcome has its own glyph and its own line, and its word is beside it; makers differ by their lines."""
    page = ready(visit(toy))
    page.add_style_tag(content="html { filter: grayscale(1); }")
    scrub(page, 1)
    found = {}
    for fate in ("kept", "rejected", "not_reached", "correction", "bonus"):
        cell = page.locator(f".tape-line:not([hidden]) .tape-chip.is-{fate}").first
        glyph = cell.locator(".tape-glyph").text_content()
        line = cell.locator(".tape-piece").evaluate(
            "p => getComputedStyle(p).textDecorationLine + getComputedStyle(p).textDecorationStyle"
        )
        hatch = cell.evaluate("c => getComputedStyle(c).backgroundImage !== 'none'")
        word = page.locator(f".tape-legend .is-{fate} b").inner_text()
        assert word in cell.get_attribute("aria-label")
        found[fate] = (glyph, word, line, hatch)
    assert len({glyph for glyph, *_ in found.values()}) == len({word for _, word, *_ in found.values()}) == 5
    lines = {fate: tuple(look[2:]) for fate, look in found.items()}
    assert lines["correction"] == lines["bonus"]  # one maker; the glyph tells them apart
    assert len({lines[fate] for fate in ("kept", "rejected", "not_reached", "bonus")}) == 4
    made = [page.locator(f".tape-text .by-{who}:not([hidden])").first.evaluate("s => getComputedStyle(s).textDecorationStyle")
            for who in ("draft", "target")]  # fmt: skip
    assert made == ["solid", "double"]


@browser
def test_n5_focus_is_seen_wherever_it_goes(visit, toy):
    """Every stop of the Tab key in the viewer, and a token reached by arrows, has an outline."""
    page = ready(visit(toy))
    scrub(page, 1)
    page.locator(".tape-text").focus()
    for key in ["Tab"] * 24:
        page.keyboard.press(key)
        name, style = page.evaluate("(e => [e.className, getComputedStyle(e).outlineStyle])(document.activeElement)")
        assert style == "solid" or not page.evaluate("Boolean(document.activeElement.closest('.tape'))"), name
    page.locator(".tape-grid [tabindex='0']").focus()
    page.keyboard.press("ArrowUp")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


@browser
def test_n6_no_sideways_scroll_at_360_pixels(browser, toy):
    """The whole column, with log and dialog of a lesson open, fits a small phone."""
    context = browser.new_context(
        viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True, locale="en-US"
    )
    page = context.new_page()
    page.goto(f"{toy}/?teach=0")
    page.wait_for_selector(".tape-line", state="attached")
    seen(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("[data-keep=lesson]").tap()
    dialog = page.locator(".keep-dialog[open]")
    assert dialog.evaluate("d => d.scrollWidth <= d.clientWidth") and dialog.bounding_box()["width"] <= 360
    context.close()


def inks(theme):
    text = CSS.read_text(encoding="utf-8")
    block = text[text.index(".dark .tape {" if theme == "dark" else ".tape {") :]
    block = block[: block.index("}")]
    return {name: re.search(rf"--{name}: (#\w+)", block)[1] for name in ("kept", "rejected", "target", "dead", "paper")}


SIGHT = {  # Machado, Oliveira, Fernandes 2009, severity 1
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
XYZ = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))


def linear(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def lab(colour, sight):
    rgb = [min(1, max(0, x)) for x in times(SIGHT[sight], linear(colour))]
    x, y, z = (v / w for v, w in zip(times(XYZ, rgb), (0.95047, 1, 1.08883), strict=True))
    f = [t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116 for t in (x, y, z)]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_n1_inks_keep_apart_in_every_kind_of_sight(theme):
    """Contrast with the paper is 4.5 and more, the distance between any two inks 20 and more."""
    found = inks(theme)
    light = {name: times(XYZ, linear(colour))[1] for name, colour in found.items()}
    paper = light.pop("paper")
    for name, y in light.items():
        assert (max(y, paper) + 0.05) / (min(y, paper) + 0.05) >= 4.5, name
    for sight in SIGHT:
        for a, b in itertools.combinations(light, 2):
            pair = zip(lab(found[a], sight), lab(found[b], sight), strict=True)
            assert sum((x - y) ** 2 for x, y in pair) ** 0.5 >= 20, (sight, a, b)


# ---- the validator ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(sources.TRACES.glob("*.jsonl")), ids=lambda path: path.name)
def test_p2_every_bundled_trace_validates(path):
    """Fields, slots, texts, masses, running counts, clock and hash of each trace that ships."""
    trace.validate(trace.read(path))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r[0].pop("seed"), "the header lacks a field"),
        (lambda r: r.pop(2), "round 1 is missing"),
        (lambda r: r[3].pop("texts"), "round 2 lacks a field"),
        (lambda r: r[3]["verify"][0].update(verdict="maybe"), "an unknown verdict"),
        (lambda r: r[3]["verify"][0].update(p_rest=0.5), "p_top and its rest sum to"),
        (lambda r: r[3]["counts"].update(tested=99), "the running counts"),
        (lambda r: r[3].update(t0=1e6), "t0 is not the sum"),
        (lambda r: r[3]["emit"].pop(), "the target's own token"),
        (lambda r: r[3]["texts"].clear(), "an id without its text"),
        (lambda r: r[-1].update(hash="0" * 16), "the hash does not belong"),
        (lambda r: r[0]["sampling"].update(seed=1), "the hash does not belong"),
        (lambda r: r.append(r[-1]), "between header, rounds and end"),
    ],
)
def test_p2_the_validator_refuses(change, words):
    """It can fail: each contradiction is named."""
    records = trace.read(sorted(sources.TRACES.glob("*.jsonl"))[0])
    change(records)
    with pytest.raises(ValueError, match=words):
        trace.validate(records)
