"""Recorded runs side by side: the command that records them, and the lanes that play them without an engine."""

import itertools
import json
import re

import browser_support as support
import pytest
from browser_support import scrub, view
from playwright.sync_api import expect

from app import sources, ui
from engine import gallery, trace
from engine.load import load_model
from engine.methods import Target
from engine.types import Sampling

METHODS = ("plain", "ngram")
GALLERY = sources.GALLERY
PROMPTS = {"chat": "abc abc abc abc", "code": "xyz xyz xyz"}


@pytest.fixture(scope="module")
def recorded(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gallery")
    target = Target(load_model(str(tiny), dtype="float32"))
    told = []
    gallery.record(target, PROMPTS, folder, Sampling(max_new=24), METHODS, lambda share, words: told.append(words))
    assert told == ["chat, plain", "chat, ngram", "code, plain", "code, ngram"]
    return folder


@pytest.fixture(scope="module")
def site(recorded, tmp_path_factory):
    """The page over these recordings."""
    folder, before = tmp_path_factory.mktemp("toy"), sources.GALLERY
    support.keep(support.toy(support.PLAIN), folder)
    sources.GALLERY = recorded
    with support.serving(folder) as url:
        yield url
    sources.GALLERY = before


def test_every_prompt_and_method_is_a_run_of_its_own(recorded):
    """The same prompt and settings for each method, one hash for one text at temperature 0, and plain decoding timed beside."""
    names = {path.name for path in recorded.iterdir()}
    assert names == {f"{prompt}.{method}.jsonl.gz" for prompt in PROMPTS for method in METHODS}
    for prompt in PROMPTS:
        texts = set()
        for method in METHODS:
            head, *rounds, end = trace.read(recorded / f"{prompt}.{method}.jsonl.gz")
            assert (head["method"], head["prompt"]["text"], end["type"]) == (method, PROMPTS[prompt], "end")
            assert trace.fingerprint(head, rounds) == end["hash"]
            texts.add(tuple(e["token_id"] for r in rounds for e in r["emit"]))
        assert len(texts) == 1 and end["plain"]["tokens_per_second"] > 0


def test_a_recording_that_breaks_off_leaves_the_old_one(recorded, monkeypatch):
    path = recorded / "chat.plain.jsonl.gz"
    before = path.read_bytes()

    def broken(*_args, **_knobs):
        yield json.loads(json.dumps(trace.read(path)[0]))
        raise RuntimeError("cable pulled")

    monkeypatch.setattr(gallery, "run", broken)
    with pytest.raises(RuntimeError, match="cable"):
        gallery.record(None, {"chat": "x"}, recorded, Sampling(), ("plain",))
    assert path.read_bytes() == before and len(list(recorded.iterdir())) == 4


@pytest.mark.parametrize("name", ["../traces/first", "chat/../chat", "", "*", "no such prompt"])
def test_names_of_recordings_are_looked_up_never_joined(site, name):
    assert sources.lanes(name) == [] and sources.recording(name, "plain") == ""


def test_lanes_show_what_the_files_hold(visit, site, recorded):
    """Passes, tokens and seconds at the end of the clock, and the text, are those of the traces."""
    page = visit(site)
    lanes = view(page, "lanes")
    expect(lanes.locator(".lanes-lane")).to_have_count(len(METHODS))
    for lane, method in zip(lanes.locator(".lanes-lane").all(), METHODS, strict=True):
        _, *rounds, _ = trace.read(recorded / f"chat.{method}.jsonl.gz")
        tokens = sum(len(r["emit"]) for r in rounds)
        ms = sum(r["t_draft"] + r["t_target"] + r["t_verify"] + r["t_other"] for r in rounds)
        assert lane.locator("dd").all_inner_texts() == [
            str(len(rounds)), str(tokens), f"{tokens / len(rounds):.2f}", f"{ms / 1000:.2f}"]  # fmt: skip
        assert lane.locator(".lanes-text span:not([hidden])").count() == tokens
    expect(lanes.locator(".lanes-verdict")).to_contain_text(re.compile("faster|slower"))


def test_r19_the_clock_counts_passes_first_then_seconds(visit, site, recorded):
    """At a place of the shared clock every lane shows the rounds that were over by then."""
    page = visit(site)
    lanes = view(page, "lanes")
    expect(lanes.locator(".lanes-lane")).to_have_count(len(METHODS))
    runs = [trace.read(recorded / f"chat.{method}.jsonl.gz")[1:-1] for method in METHODS]
    ms = [[r["t_draft"] + r["t_target"] + r["t_verify"] + r["t_other"] for r in run] for run in runs]
    ends = {"passes": max(map(len, runs)), "seconds": max(map(sum, ms)) / 1000}
    for clock, end in ends.items():
        lanes.get_by_role("button", name=f"by {clock}").click()
        assert lanes.locator("[aria-pressed=true]").all_inner_texts()[-1] == f"by {clock}"
        lanes.locator(".lanes-scrub").evaluate("s => { s.value = 400; s.dispatchEvent(new Event('input')); }")
        for lane, run, times in zip(lanes.locator(".lanes-lane").all(), runs, ms, strict=True):
            cost = range(1, len(run) + 1) if clock == "passes" else [t / 1000 for t in itertools.accumulate(times)]
            passes = sum(c <= 0.4 * end + 1e-9 for c in cost)
            assert lane.locator("dd").first.inner_text() == str(passes)
    lanes.get_by_role("button", name="Play").click()
    expect(lanes.get_by_role("button", name="Replay")).to_be_visible(timeout=20_000)


def test_c10_a_planted_difference_is_marked_with_its_gap(visit, tiny, recorded, tmp_path_factory):
    """Equal texts are called so; the first token that differs is marked, with the lead of the target's best logit there."""
    folder, before = tmp_path_factory.mktemp("planted"), sources.GALLERY
    for method in METHODS:
        records = trace.read(recorded / f"chat.{method}.jsonl.gz")
        if method == "ngram":
            flat = [(r, e) for r in records[1:-1] for e in r["emit"]]
            r, e = flat[9]
            e["token_id"] = other = (e["token_id"] + 1) % 256
            r["texts"][str(other)] = "?"
        list(trace.write(folder / f"chat.{method}.jsonl.gz", records))
    plain = trace.read(folder / "chat.plain.jsonl.gz")[1:-1]
    toy = tmp_path_factory.mktemp("toy")
    support.keep(support.toy(support.PLAIN), toy)
    for gallery_, said in (
        (recorded, "same text, token for token"),
        (folder, f"{plain[9]['final']['p_gap']:.3f} apart"),
    ):
        sources.GALLERY = gallery_
        try:
            with support.serving(toy) as url:
                lanes = view(visit(url), "lanes")
                expect(lanes.locator(".lanes-verdict")).to_contain_text(said)
                marked = lanes.locator(".is-parting")
                assert marked.count() == (gallery_ is folder)
                if gallery_ is folder:
                    expect(lanes.locator(".lanes-verdict")).to_contain_text(
                        "ngram parts from plain decoding at token 10"
                    )
                    assert marked.inner_text().endswith("?")
        finally:
            sources.GALLERY = before


def test_a_lane_opens_above_round_by_round(visit, site, recorded):
    page = visit(site)
    lanes = view(page, "lanes")
    lanes.get_by_role("button", name=re.compile("^code")).click()
    expect(lanes.locator(".lanes-told")).to_contain_text("xyz")
    lanes.locator(".lanes-lane").nth(1).get_by_role("button").click()
    expect(page.locator(".tape-prompt")).to_contain_text("xyz xyz xyz")
    expect(page.locator(".tape-head .tape-badge")).to_contain_text("recorded on")
    scrub(page, 1)
    rounds = trace.read(recorded / "code.ngram.jsonl.gz")[1:-1]
    assert page.locator(".tape-text span:not([hidden])").count() == sum(len(r["emit"]) for r in rounds)


def test_the_page_has_a_recording_of_every_method_on_every_example():
    """What travels with the program: six prompts, every method, readable, from one machine and one set of weights."""
    heads = [trace.read(path)[0] for path in sorted(GALLERY.glob("*.jsonl.gz"))]
    assert {(h["prompt"]["text"], h["method"]) for h in heads} == set(
        itertools.product(ui.EXAMPLES.values(), sources.METHODS)
    )
    for method in sources.METHODS:
        assert len({json.dumps(h["models"]) for h in heads if h["method"] == method}) == 1
    assert len({h["machine"] for h in heads}) == 1
