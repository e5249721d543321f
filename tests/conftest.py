"""What every test shares: a quiet environment and the default target, loaded once."""

import os
import shutil

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import browser_support as support
import pytest


@pytest.fixture(scope="session")
def target():
    """The default target in float32."""
    from engine.load import load_model
    from engine.methods import Target

    return Target(load_model(dtype="float32"))


# ---- the page in headless Chromium: nothing leaves the machine, live runs use a tiny model ----------------------------

FLAGS = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update"


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    return {**browser_type_launch_args, "executable_path": shutil.which("chromium"), "args": FLAGS.split()}


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args):
    return {**browser_context_args, "locale": "en-US", "viewport": {"width": 1440, "height": 900}}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The engine of this process runs a tiny random model."""
    folder = support.tiny_model(tmp_path_factory.mktemp("tiny"))
    before = os.environ.get("SPECSCOPE_TARGET")
    os.environ["SPECSCOPE_TARGET"] = str(folder)
    yield folder
    os.environ.pop("SPECSCOPE_TARGET")
    if before:
        os.environ["SPECSCOPE_TARGET"] = before


@pytest.fixture(scope="module")
def bundled(tiny):
    with support.serving() as url:
        yield url


@pytest.fixture(scope="module")
def toy(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    support.keep(support.toy(support.PLAIN + support.PLAIN[1:] * 4), folder)
    with support.serving(folder) as url:
        yield url


@pytest.fixture(scope="module")
def block(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("block")
    support.keep(support.records(support.BLOCK), folder)
    with support.serving(folder) as url:
        yield url


@pytest.fixture(scope="module")
def hostile(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    text = " ".join(support.HOSTILE)
    rounds = [([piece, piece], ["kept", "rejected"], piece) for piece in support.HOSTILE]
    support.keep(support.toy(rounds, prompt={"text": text, "raw": False, "ids": []}), folder)
    with support.serving(folder) as url:
        yield url


@pytest.fixture
def visit(page):
    """Opens an address and waits for the tape; fails if the page asks elsewhere, logs an error or throws."""
    bad, local = [], ("http://127.0.0.1:", "data:", "blob:")
    page.route(
        "**/*", lambda r: r.continue_() if r.request.url.startswith(local) else (bad.append(r.request.url), r.abort())
    )
    page.on("console", lambda m: bad.append(m.text) if m.type == "error" and "422" not in m.text else None)
    page.on("pageerror", lambda error: bad.append(str(error)))

    def opened(url):
        known = len(bad)
        page.goto(url)
        bad[known:] = [
            text for text in bad[known:] if "abort" not in text and "errored out" not in text
        ]  # of the page left
        page.wait_for_selector(".tape-grid")
        return page

    yield opened
    assert not bad, bad
