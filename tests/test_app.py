"""The page without a browser: words, messages, validators, the guard, and that it all builds without torch."""

import json
import string
import subprocess
import sys
import time
import warnings
from itertools import pairwise
from pathlib import Path

import browser_support as support
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from app import sources, ui
from app.guard import LIMIT, Guard
from app.words import NAMES, WORDS, words

ROOT = Path(__file__).parents[1]
GOOD = {"prompt": "hi", "method": "ngram", "k": 4, "temperature": 0, "top_p": 1, "seed": 0, "max_new": 8, "rule": "exact",
        "top_k": 0, "min_p": 0, "sampled": False, "markov": True, "confidence": True, "threshold": 0}  # fmt: skip


def test_l1_words_have_the_same_keys_and_blanks_in_all_languages():
    """No string is missing anywhere, none is empty, and each is filled with the same values."""
    for code in NAMES:
        assert WORDS[code].keys() == WORDS["en"].keys()
        assert all(WORDS[code].values())
        for key in WORDS["en"]:
            assert blanks(WORDS[code][key]) == blanks(WORDS["en"][key]), (code, key)


def blanks(text):
    return {name.split("|")[0] for _, name, _, _ in string.Formatter().parse(text) if name}


def test_every_native_component_is_relabelled():
    """Whatever the server writes on a component is a word of the dictionary, so a change of language reaches it."""
    say, labels = words("en"), ui._labels(words("en"))
    settings, parts = layout()
    known = set(say.values()) | {name for name in NAMES.values()}
    for name, component in {**settings, **parts}.items():
        config = component.get_config()
        shown = [config.get(field) for field in ("label", "info", "placeholder")]
        shown += [label for label, _ in config.get("choices") or []]
        if name in labels and "value" in labels[name]:
            shown.append(config["value"])
        assert {text for text in shown if text} <= known, name
        assert not any(shown) or name in labels, name
    for code in NAMES:
        assert labels.keys() == ui._labels(words(code)).keys()


def layout():
    import gradio as gr

    with gr.Blocks():
        return ui._layout()


def test_u10_u30_the_page_builds_with_warnings_as_errors():
    """No script in a value, no option in the wrong place; the page's own script and style are in the head."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        page = ui.build()
    settings = ui.launch()
    assert "mountViewer" in json.dumps(page.get_config_file())
    assert "specscope" in settings["head"] and ".tape" in settings["head"]
    assert not settings["ssr_mode"] and not settings["run_history"]


def test_u29_the_page_builds_without_torch():
    """app imports and builds, first trace included, where torch and transformers cannot be imported."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('torch', 'transformers')));"
        "from app import ui; ui.build(); print('built')"
    )
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert told.stdout == "built\n", told.stderr


BAD = [
    ("prompt", ""), ("prompt", " \n\t"), ("prompt", "x" * 1_000_000), ("prompt", 7), ("prompt", None), ("k", 0), ("k", 2.5),
    ("k", -1), ("k", 1e6), ("k", "4"), ("k", True), ("k", float("nan")), ("temperature", -1), ("temperature", float("inf")),
    ("top_p", 0), ("top_p", 1.1), ("seed", -1), ("seed", 0.5), ("max_new", 0), ("max_new", 10_000), ("method", "magic"),
    ("method", ["lm"]), ("rule", None), ("top_k", -1), ("min_p", 2), ("threshold", 1.5), ("markov", "on"), ("sampled", 1),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), BAD)
def test_bad_settings_are_named_in_every_language(name, value):
    """One clear sentence for the setting that is wrong, the same for the page and for the engine's door."""
    found = sources.problems(GOOD | {name: value})
    assert list(found) == [name]
    with pytest.raises(ValueError):
        next(sources.live(GOOD | {name: value}))
    for code in NAMES:
        given = GOOD | {name: value, "language": code}
        failed = [verdict for verdict in ui.check(*(given[s] for s in ui.SETTINGS)) if not verdict["is_valid"]]
        assert len(failed) == 1 and "{" not in failed[0]["message"] and len(failed[0]["message"]) < 300


def test_good_settings_pass():
    """What the page offers is accepted; methods and rules are the engine's own."""
    from engine.methods import KNOBS, METHODS
    from engine.verify import RULES

    assert set(sources.METHODS) == set(METHODS) and set(sources.RULES) == set(RULES)
    assert all(set(knobs) <= METHODS[name].knobs.keys() for name, knobs in sources.KNOBS.items())
    assert {name for name, bounds in KNOBS.items() if bounds is bool} == set(sources.SWITCHES)
    for method in sources.METHODS:
        for rule in sources.RULES:
            assert not sources.problems(GOOD | {"method": method, "rule": rule, "seed": 2**53 - 1, "temperature": 0.7})


def fast_run(n):
    return support.toy([([" a", " b", " c"], ["kept", "rejected", "not_reached"], " d")] * n)


def test_u15_messages_are_small_paced_and_complete():
    """Under 32 kB and ten a second however fast the engine is; none of the rounds is lost, the last message has them all."""
    began, stamps, seen = time.monotonic(), [], set()
    told = [m for m, _ in sources.messages(fast_run(120)) if m and (stamps.append(time.monotonic()) or True)]
    for message in told[:-1]:
        assert len(message.encode()) < 32_000
        rounds = [r["i"] for r in json.loads(message)["rounds"]]
        assert rounds == list(range(rounds[0], rounds[0] + len(rounds))) if rounds else True
        assert not rounds or rounds[0] <= len(seen)  # overlaps or joins what is known
        seen |= set(rounds)
    last = json.loads(told[-1])
    assert last["final"] and [r["i"] for r in last["rounds"]] == list(range(120)) and last["end"]["type"] == "end"
    assert seen == set(range(120))
    assert all(b - a > 0.09 for a, b in pairwise(stamps)) and time.monotonic() - began < 20
    assert "ids" not in last["run"]["prompt"]


def test_u15_a_long_run_ends_in_a_tail_under_a_megabyte():
    """Beyond one megabyte the last message holds the newest rounds that fit."""
    mail = sources._Mail()
    for record in fast_run(800):
        mail.take(record)
    last = mail.message(final=True)
    rounds = json.loads(last)["rounds"]
    assert len(last.encode()) <= 1_000_000 and 0 < len(rounds) < 800 and rounds[-1]["i"] == 799


def test_u09_messages_hold_no_tag():
    """A '<' of a model never travels as such."""
    rounds = [([text], ["kept"], text) for text in support.HOSTILE]
    told = [m for m, _ in sources.messages(support.toy(rounds, prompt={"text": "<b>", "raw": False, "ids": []})) if m]
    assert not any("<" in message for message in told)
    assert (
        "<script>" not in json.dumps(told) and support.HOSTILE[0] in json.loads(told[-1])["rounds"][0]["texts"].values()
    )


def test_recorded_says_so(tmp_path):
    """What was measured elsewhere is shown as recorded; a toy stays a toy."""
    measured = support.keep(support.toy(support.PLAIN, badge="measured"), tmp_path)
    assert json.loads(sources.recorded(measured))["run"]["badge"] == "recorded"
    toy = support.keep(support.toy(support.PLAIN), tmp_path)
    assert json.loads(sources.recorded(toy))["run"]["badge"] == "toy"


def test_bundled_traces_are_recordings():
    """Every trace that ships is a real run of the engine, never a toy, and fits into one message."""
    paths = list(sources.TRACES.glob("*.jsonl"))
    assert paths
    for path in paths:
        message = json.loads(sources.recorded(path))
        assert message["run"]["badge"] == "recorded" and message["end"] and message["rounds"][0]["i"] == 0


# ---- the guard -------------------------------------------------------------------------------------------------------


async def echo(request):
    return PlainTextResponse(str(len(await request.body())))


@pytest.fixture
def door():
    app = Starlette(routes=[Route("/", echo, methods=["POST"])])
    return TestClient(Guard(app))


def test_guard_lets_small_bodies_through_with_headers(door):
    answer = door.post("/", content=b"x" * 1000)
    assert answer.text == "1000"
    assert "connect-src 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_guard_refuses_a_large_body_by_its_length(door):
    assert door.post("/", content=b"x" * (LIMIT + 1)).status_code == 413


def test_guard_counts_chunked_bodies(door):
    """A chunked body declares no length; it is cut off when too much has come."""
    assert door.post("/", content=(b"x" * 100_000 for _ in range(20))).status_code == 413
    assert door.post("/", content=(b"x" * 1000 for _ in range(20))).text == "20000"
