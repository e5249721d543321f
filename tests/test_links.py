"""Links: the address holds the state, opening it repeats the run, and a link for a lesson hides what it names."""

import re
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pytest
from browser_support import ask, finished, ready, scrub, view
from playwright.sync_api import expect

# fixtures of the browser tests
from app import sources

# ruff: noqa: F811

pytestmark = pytest.mark.browser


@pytest.fixture
def page(page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    return page


def copied(page):
    """Copy a link by its button; the clipboard and the address bar hold the same."""
    page.locator("[data-keep=copy]").click()
    expect(page.locator(".keep-note")).to_contain_text("Link copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    return page.url


def control(page, name):
    """A native control's value."""
    return page.locator(
        f"#{name} input[type=number], #{name} textarea, #{name} input[type=radio]:checked"
    ).first.input_value()


def repeated(page, same="true"):
    """Wait until a linked run has ended and its hash was compared."""
    expect(page.locator(".keep-hash")).to_have_attribute("data-same", same, timeout=60_000)
    return page


def runs(page):
    """The runs that the page asks for from now on."""
    asked = []
    page.on("request", lambda r: asked.append(r.post_data) if "/queue/join" in r.url else None)
    return asked


def test_m1_a12_open_and_copy_again_is_the_same_link_and_hash(visit, bundled):
    """Everything the link names is back, the run was repeated exactly, and the link copied then is the very same; twice."""
    page = ready(visit(bundled))
    page.locator("#temperature input[type=number]").fill("0.7")
    page.locator("#seed input").fill("9")
    page.locator("#seed input").press("Tab")
    ask(page, "ab ab, <b>ab</b> & 你好 + 100%", 30)
    finished(page)
    scrub(page, 0.5)
    page.locator(".tape-line [data-slot='own']").nth(2).click()
    page.locator(".tape-line [data-slot='own']").nth(4).click()
    view(page, "fade")
    at, place = page.locator(".tape-scrub").input_value(), page.locator(".tape-place").inner_text()
    link = copied(page)
    told = {name: values[0] for name, values in parse_qs(urlsplit(link).query).items()}
    expected = {"prompt": "ab ab, <b>ab</b> & 你好 + 100%", "method": "ngram", "temperature": "0.7", "seed": "9",
                "max_new": "30", "k": "4", "step": at, "pin": "2.own,4.own", "open": "fade", "lang": "en"}  # fmt: skip
    assert expected.items() <= told.items() and re.fullmatch("[0-9a-f]{16}", told["hash"])
    assert set(sources.LIMITS) | set(sources.SWITCHES) <= told.keys()
    for _ in range(2):
        page.goto("about:blank")
        asked = runs(page)
        page = repeated(visit(link))
        expect(page.locator(".keep-hash")).to_contain_text("repeated exactly")
        expect(page.locator(".tape-scrub")).to_have_value(at)
        assert page.locator(".tape-place").inner_text() == place
        assert [control(page, name) for name in ("prompt", "method", "temperature", "seed")] == [
            told[name] for name in ("prompt", "method", "temperature", "seed")
        ]
        assert page.locator(".view-tab[aria-selected=true]").get_attribute("data-view") == "fade"
        assert page.locator(".tape-grid .is-pinned").count() == 2
        assert sum(told["prompt"] in data for data in asked if data) == 1  # the run was started once
        assert copied(page) == link


def test_a12_another_result_is_called_different(visit, bundled):
    """The hash stands on the page; where it is not the link's, the page says so. A link with another seed has another hash."""
    link = f"{bundled}/?" + urlencode(
        {"prompt": "xy xy", "method": "ngram", "max_new": 12, "temperature": 1, "seed": 3}
    )
    page = visit(link)
    expect(page.locator(".tape-badge")).to_contain_text("measured", timeout=60_000)
    finished(page)
    own = parse_qs(urlsplit(copied(page)).query)["hash"][0]
    assert own[:8] in page.locator(".keep-hash").inner_text()
    page.goto("about:blank")
    repeated(visit(f"{link}&hash={own}"))
    page.goto("about:blank")
    repeated(visit(f"{link.replace('seed=3', 'seed=4')}&hash={own}"), "false")
    expect(page.locator(".keep-hash")).to_contain_text(f"the link's {own[:8]}: another machine")


def test_m1_bad_values_are_left_out_one_by_one(visit, bundled):
    """Nothing that stands in a link breaks the page; what is valid holds, what is not is named, and nothing runs."""
    bad = {"k": "99", "temperature": "hot", "rule": "<script>", "min_p": "2", "step": "-1", "pin": "x.y", "markov": "maybe",
           "method": "constructor", "hash": "'", "lang": "xx", "max_new": "1e99", "hide": "a b"}  # fmt: skip
    page = visit(f"{bundled}/?seed=7&top_p=0.5&open=nowhere&unheard=of&" + urlencode(bad))
    asked = runs(ready(page))
    assert (control(page, "seed"), control(page, "top_p"), control(page, "k")) == ("7", "0.5", "4")
    note = page.locator(".keep-note").inner_text()
    assert all(name in note for name in bad) and "seed" not in note
    page.wait_for_timeout(800)
    assert not asked and page.locator(".view-tab[aria-selected=true]").count() == 1


def test_m1_links_have_the_limits_of_the_engine(visit, bundled):
    """At each limit a value is taken, beyond it it is left out; a block drafter takes no more guesses than it can make."""
    most = {name: limits[1] for name, limits in sources.LIMITS.items()}
    page = visit(f"{bundled}/?" + urlencode(most))
    ready(page).locator("#advanced button").click()
    for name, value in most.items():
        expect(page.locator(f"#{name} input").first).to_have_value(str(value))
    beyond = {name: limits[0] - 1 for name, limits in sources.LIMITS.items()}
    page = visit(f"{bundled}/?" + urlencode(beyond))
    note = page.locator(".keep-note").inner_text()
    assert all(name in note for name in beyond)
    page = visit(f"{bundled}/?method=dspark&k={sources.BLOCK + 1}")
    expect(page.locator(".keep-note")).to_have_text("Not usable in the link, so left out: k.")


def test_m1_the_recording_serves_a_link_to_itself(visit, bundled):
    """A link to the bundled run asks the engine for nothing: the playhead stands at the step, nothing plays."""
    page = ready(visit(bundled))
    scrub(page, 0.4)
    link, at = copied(page), page.locator(".tape-scrub").input_value()
    page.goto("about:blank")
    page = ready(visit(link))
    asked = runs(page)
    page.wait_for_timeout(1000)
    assert not asked and page.locator(".tape-scrub").input_value() == at
    expect(page.locator(".tape-badge")).to_contain_text("recorded")
    assert copied(page) == link


def test_m1_a_longest_prompt_fits_into_a_link(bundled, page):
    """The server takes the address of 2000 Chinese characters."""
    assert page.request.get(f"{bundled}/?prompt=" + quote("汉" * sources.PROMPT)).ok


def test_m1_s_copies(visit, bundled, page):
    """The key is the button's."""
    visit(bundled)
    page.keyboard.press("s")
    expect(page.locator(".keep-note")).to_contain_text("Link copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.url and "step=" in page.url


def test_m1_a_frame_without_clipboard_gets_a_field(bundled, page):
    """Where copying is denied the link stands selected in a field, and the page says what to do."""
    frame = f"<iframe src='{bundled}/' allow=\"clipboard-write 'none'\" style='width: 1200px; height: 900px'></iframe>"
    page.route("**/framed", lambda route: route.fulfill(content_type="text/html", body=frame))
    page.goto(f"{bundled}/framed")
    inner = page.frame_locator("iframe")
    inner.locator("[data-keep=copy]").click()
    field = inner.locator(".keep-dialog[open] .keep-address")
    expect(field).to_be_visible()
    chosen = field.evaluate("f => f.value.slice(f.selectionStart, f.selectionEnd)")
    assert chosen.startswith(bundled) and "prompt=" in chosen and "step=" in chosen
    expect(inner.locator(".keep-dialog[open]")).to_contain_text("Ctrl + C")
    inner.locator(".keep-dialog[open] button").click()
    inner.locator("[data-keep=lesson]").click()
    inner.locator(".keep-dialog[open]").get_by_role("button", name="Copy link").click()
    expect(inner.locator(".keep-dialog[open]")).to_contain_text("Ctrl + C")


def stops(page, presses=70):
    """What Tab reaches from the top: ids of controls and classes."""
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    seen = set()
    for _ in range(presses):
        page.keyboard.press("Tab")
        seen |= set(
            page.evaluate("""() => { const names = []; for (let e = document.activeElement; e; e = e.parentElement)
            names.push(e.id, ...e.classList); return names; }""")
        )
    return seen


def test_m5_hidden_controls_leave_the_tab_order(visit, toy):
    """hide= removes native settings, examples, a view and parts of the player, for the eye and for the Tab key."""
    names = "prompt,seed,examples,fade,speed,keep,unknown"
    page = ready(visit(f"{toy}/?hide={names}"))
    for gone in ("#prompt", "#seed", "#examples", ".player-speed", ".keep", "[data-view=fade]"):
        assert not page.locator(gone).is_visible(), gone
    reached = stops(page)
    assert {"k", "temperature", "player-stop", "tape-scrub", "view-tab"} <= reached
    assert not reached & {"prompt", "seed", "examples", "player-speed", "keep", "keep-button"}
    page.keyboard.press("Escape")
    page.locator("body").press("d")  # the key of a hidden view opens nothing
    assert page.locator("#view-fade").count() == 0
    every = ",".join(tab.get_attribute("data-view") for tab in page.locator("[role=tab]").all())
    page = ready(visit(f"{toy}/?hide={every},fade"))
    assert page.locator("[role=tab]").count() == 0


def test_m5_teacher_mode_is_large_and_has_no_menus(visit, toy):
    """teach=1: everything a quarter larger, no menus, no footer; the run still plays and nothing is wider than the window."""
    page = ready(visit(toy))
    small = page.locator(".tape-play").bounding_box()["height"]
    page = ready(visit(f"{toy}/?teach=1"))
    assert page.locator(".tape-play").bounding_box()["height"] == pytest.approx(1.25 * small, abs=1)
    for menu in ("footer", "#language", "#advanced", ".player-speed", ".player-stop", ".player-step.keys", ".keep"):
        assert not page.locator(menu).first.is_visible(), menu
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not stops(page) & {"language", "advanced", "player-speed", "player-stop", "keys", "keep-button"}


def test_m5_r21_a_lesson_s_link_is_written_by_ticking(visit, toy):
    """The dialog's boxes make the link; opening it hides just that, and the dialog there has the same boxes ticked."""
    page = ready(visit(toy))
    every = page.locator(".view-tab").count()
    page.locator("[data-keep=lesson]").click()
    dialog = page.locator(".keep-dialog[open]")
    for label in ("Seed", "Why guesses fade", "Legend"):
        dialog.get_by_label(label, exact=True).check()
    link = dialog.locator(".keep-address").input_value()
    assert parse_qs(urlsplit(link).query)["hide"] == ["seed,fade,legend"]
    dialog.get_by_role("button", name="Copy link").click()
    assert page.evaluate("navigator.clipboard.readText()") == link
    page = ready(visit(re.sub("(prompt|method)=[^&]*&", "", link)))
    assert not page.locator("#seed").is_visible() and not page.locator(".tape-legend").is_visible()
    assert page.locator(".view-tab").count() == every - 1 and page.locator("#k").is_visible()
    page.locator("[data-keep=lesson]").click()
    ticked = page.locator(".keep-dialog[open] input:checked").evaluate_all("boxes => boxes.map(box => box.value)")
    assert ticked == ["seed", "fade", "legend"]


def test_r20_theme_and_language_stay_in_the_link(visit, toy):
    """What the address says of theme and language is in the link copied from it."""
    page = visit(f"{toy}/?__theme=dark&lang=zh")
    assert page.evaluate("document.body.classList.contains('dark')")
    page.locator("[data-keep=copy]").click()
    expect(page.locator(".keep-note")).to_contain_text("链接已复制")
    assert "__theme=dark" in page.url and "lang=zh" in page.url
