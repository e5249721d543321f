"""The page stays quick with a long run in it."""

import browser_support as support
import pytest
from browser_support import scrub, view
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """A trace of 2,000 rounds as a file."""
    records = support.sure(support.toy(support.PLAIN[:1] + support.PLAIN[1:] * 400, method="dspark"))
    return support.keep(records, tmp_path_factory.mktemp("long"))


@pytest.mark.parametrize("name", ["token", "count", "fade", "sure"])
def test_thirty_steps_a_second_with_two_thousand_rounds(visit, toy, long, name):
    """Steps by key, each drawn, in the middle of a run of 2,000 rounds; medians, so that a busy machine does not decide."""
    page = visit(toy)
    page.locator(".keep input[type=file]").set_input_files(long)
    expect(page.locator(".tape-place")).to_contain_text("of 2001", timeout=60_000)
    view(page, name)
    scrub(page, 0.5)
    spent = page.evaluate("""() => {
        document.activeElement.blur();
        const times = [];
        for (let i = 0; i < 41; i++) {
            const from = performance.now();
            document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true, cancelable: true }));
            document.body.getBoundingClientRect();
            times.push(performance.now() - from);
        }
        return times.sort((a, b) => a - b)[20]; }""")
    assert spent < 1000 / 30, spent
