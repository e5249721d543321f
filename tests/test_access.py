"""Every view by keyboard, without serious findings, in both themes."""

import browser_support as support
import pytest
from axe_playwright_python.sync_playwright import Axe
from browser_support import ready, scrub, view

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def block(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("block")
    support.keep(support.sure(support.toy(support.BLOCK * 3, method="dspark")), folder)
    with support.serving(folder) as url:
        yield url


def names(page):
    return page.locator(".view-tab").evaluate_all("tabs => tabs.map(tab => tab.dataset.view)")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_u17_no_view_has_serious_findings(visit, block, theme):
    """Axe over the viewer with each view open and a token chosen, at every depth that shows something else."""
    page = ready(visit(f"{block}/?__theme={theme}"))
    scrub(page, 1)
    page.locator(".tape-line .is-rejected").first.click()
    page.locator(".view-depth").select_option("proof")
    for name in names(page):
        view(page, name)
        found = Axe().run(page, context="#tape").response["violations"]
        serious = [
            (v["id"], [n["html"][:120] for n in v["nodes"]][:3])
            for v in found
            if v["impact"] in ("serious", "critical")
        ]
        assert not serious, (name, serious)


def test_n5_a_tour_of_every_view_by_keyboard(visit, block):
    """Arrows go from tab to tab; Tab reaches every control of a view, always with a visible focus, and leaves it again."""
    page = ready(visit(block))
    scrub(page, 1)
    page.locator(".tape-line .is-rejected").first.click()
    page.locator(".view-tab[aria-selected=true]").focus()
    every = names(page)
    for number, name in enumerate(every):
        panel = page.locator(f"#view-{name}")
        assert panel.is_visible()
        if name == "lanes":
            panel.locator(".lanes-lane").last.wait_for()  # they come from the server
        wanted = panel.evaluate("""panel => [...panel.querySelectorAll("button, input, select, a[href], [tabindex='0']")]
            .filter(e => !e.disabled && e.checkVisibility({ visibilityProperty: true })
                         && (e.type !== "radio" || e.checked)).map((e, i) => (e.dataset.tour = i))""")
        reached, inside = set(), True
        while inside and len(reached) <= len(wanted):
            page.keyboard.press("Tab")
            inside, which, ring = page.evaluate("""name => { const e = document.activeElement, style = getComputedStyle(e);
                return [Boolean(e.closest("#view-" + name)), e.dataset.tour,
                        style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 1]; }""", name)  # fmt: skip
            if inside:
                assert ring, (name, which)
                reached.add(which)
        assert reached == {str(i) for i in wanted}, name
        page.locator(f".view-tab[data-view={name}]").focus()
        page.keyboard.press("ArrowRight")
        following = every[(number + 1) % len(every)]
        assert page.evaluate("document.activeElement.dataset.view") == following
