"""How drafters guess: inputs, passes and taps as the engine had them, the cache, one prefix for every method."""

import itertools
import json
import re
from dataclasses import replace

import browser_support as support
import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from browser_support import ask, finished, ready, scrub, view
from gradio_client import Client
from playwright.sync_api import expect
from test_trace import Letters
from toys import PROMPT
from toys import engine as build

from app import sources
from app.words import NAMES, words
from engine import METHODS, Engine, Sampling, trace
from engine.drafters.block import BlockConfig
from engine.drafters.dflash import DFlash
from engine.drafters.dspark import DSpark, DSparkConfig
from engine.load import load_model
from engine.methods import Target
from engine.model import LM
from engine.run import guess_here, run

TAPS, BLOCK = (1, 4, 8), 8


def furnish(target):
    """Random weights for every method: they guess badly, but through the very code of the real ones."""
    lm, loaded = target.lm, target.loaded
    hidden, size = lm.model.config.hidden_size, lm.vocabulary_size
    shape = dict(hidden=hidden, intermediate=48, layers=2, heads=4, key_heads=2, head_dim=8, vocabulary=size, mask=size - 1,
                 target_layers=len(lm.layers), taps=TAPS, block=BLOCK)  # fmt: skip
    torch.manual_seed(3)
    dtype = next(lm.model.parameters()).dtype
    nets = {
        "dflash": DFlash(BlockConfig(**shape, anchor_guesses=False)),
        "dspark": DSpark(DSparkConfig(**shape, anchor_guesses=True, markov_rank=8)),
    }
    for name, net in nets.items():
        target.kept[name, None] = replace(loaded, model=net.to(dtype), name=f"random {name}")
    target.kept["lm", None] = LM(loaded.model, 1), replace(loaded, name="itself"), None
    return target


@pytest.fixture(scope="module")
def furnished(tiny):
    return furnish(Target(load_model(str(tiny), dtype="float32")))


class Counted:
    """Counts what really runs: forwards of the target's and the drafter's modules and the target's tapped layers, by round."""

    def __init__(self, monkeypatch, target, method):
        self.target, self.draft, self.taps, self.rounds = 0, 0, set(), []
        drafter = target.kept.get((method, None))
        net = drafter[0].model if method == "lm" else drafter.model if drafter else None
        hooks = [target.lm.model.register_forward_pre_hook(lambda *_: self.count("target"))]
        if net is target.lm.model:  # a model that drafts for itself: told apart by whose forward it is
            real = LM.forward

            def forward(lm, *given, **more):
                self.whose = "target" if lm is target.lm else "draft"
                return real(lm, *given, **more)

            monkeypatch.setattr(LM, "forward", forward)
        elif net is not None:
            hooks.append(net.register_forward_pre_hook(lambda *_: self.count("draft")))
        for i, layer in enumerate(target.lm.layers):
            register = layer.register_forward_hook

            def spied(hook, *given, i=i, register=register, **more):
                self.taps.add(i)
                return register(hook, *given, **more)

            monkeypatch.setattr(layer, "register_forward_hook", spied)
        self.hooks, self.whose = hooks, "target"

    def count(self, side):
        side = self.whose if side == "target" else side
        setattr(self, side, getattr(self, side) + 1)

    def records(self, records):
        """The records, noting after each round how many forwards it took."""
        for record in records:
            if record["type"] == "round":
                self.rounds.append({"draft": self.draft, "target": self.target})
                self.draft = self.target = 0
            yield record
        for hook in self.hooks:
            hook.remove()


def recorded(monkeypatch, target, method, prompt="abc abc abc xyz abc", **knobs):
    """A real run, and what was really counted beside it."""
    counted = Counted(monkeypatch, target, method)
    sampling = Sampling(max_new=20, temperature=0.0 if method == "ngram" else 1.0, seed=4)  # greedy, it loops: matches
    records = list(counted.records(run(target, prompt, method, sampling, ignore_eos=True, **knobs)))
    monkeypatch.undo()
    return records, counted


CASES = [("plain", {}), ("ngram", {"k": 3}), ("lm", {"k": 3}), ("dflash", {"k": 3}), ("dspark", {}),
         ("dspark", {"markov": False}), ("dflash", {"threshold": 0.9})]  # fmt: skip


def rounds_of(records):
    return [r for r in records if r["type"] == "round"]


# ---- the trace -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method,knobs", CASES)
def test_d11_the_trace_has_the_passes_and_taps_of_the_engine(monkeypatch, furnished, method, knobs):
    """Forwards by round are those counted at the modules; the taps are the layers that were hooked, and no other."""
    prompt = "abc abc " * 40  # longer than one chunk of reading
    records, counted = recorded(monkeypatch, furnished, method, prompt, **knobs)
    assert [r["passes"] for r in rounds_of(records)] == counted.rounds
    assert counted.rounds[0]["target"] == 2 and all(r["target"] == 1 for r in counted.rounds[1:])
    sees = records[0]["sees"]
    assert sees["taps"] == sorted(counted.taps) and sees["layers"] == len(furnished.lm.layers)
    assert bool(sees["taps"]) == ("features" in sees["inputs"])
    if knobs.get("threshold"):
        assert all(r["passes"]["draft"] == 1 and not r["draft"] for r in rounds_of(records)[1:-1])  # a pass for nothing


def test_d11_a_guess_changes_with_what_it_sees_and_with_nothing_else(furnished):
    """`sees` is no claim: the Markov head off takes the drafter's own guesses out of it."""
    heads = {markov: next(run(furnished, "abc", "dspark", markov=markov))["sees"]["inputs"] for markov in (True, False)}
    assert heads[True] == ["features", "anchor", "masks", "guesses"] and heads[False] == heads[True][:-1]


def test_d11_ngram_tells_the_span_it_copied(monkeypatch, furnished):
    records, _ = recorded(monkeypatch, furnished, "ngram", k=3)
    written, copies = list(records[0]["prompt"]["ids"]), 0
    for r in rounds_of(records):
        if r["draft"]:
            (begin, end), matched = r["draft"][0]["source"], r["draft"][0]["matched"]
            assert r["copied"] == written[begin:end] and r["copied"][:matched] == written[-matched:]
            assert r["copied"][matched:] == [d["token_id"] for d in r["draft"]]
            assert all(str(i) in r["texts"] for i in r["copied"])
            copies += 1
        else:
            assert "copied" not in r
        written += [e["token_id"] for e in r["emit"]]
    assert copies


# ---- the page --------------------------------------------------------------------------------------------------------


@pytest.fixture
def play(visit, toy):
    """Plays records in a viewer of its own, as an offline file does. `more`: what it may ask, as JavaScript."""
    page = visit(toy)

    def played(records, more="{}"):
        mail = sources._Mail()
        for record in records:
            mail.take(record)
        page.evaluate(
            f"""message => {{
                const old = document.querySelector('.tape'), fresh = old.cloneNode(false);
                old.replaceWith(fresh);
                mountViewer(fresh, {{ words: specscope.words, experiment: specscope.experiment, ...{more}, connect(viewer) {{
                    viewer.speak(document.documentElement.lang);
                    viewer.take(message);
                }} }});
            }}""",
            json.loads(mail.message(final=True)),
        )
        return page, view(page, "ways")

    return played


def at_round(page, index):
    """Playhead to the end of a round."""
    page.evaluate("document.activeElement.blur()")
    page.locator(".tape-scrub").evaluate("s => { s.value = 0; s.dispatchEvent(new Event('input')); }")
    for _ in range(index + 1 if page.locator(".tape-place b").first.inner_text() == "1" else index):
        page.keyboard.press("ArrowDown")
    expect(page.locator(".tape-place b").first).to_have_text(str(index + 1))


@pytest.mark.browser
@pytest.mark.parametrize("method,knobs", CASES[:6])
def test_d11_q39_q42_strips_show_the_real_step(play, monkeypatch, furnished, method, knobs):
    """Passes on the page are the engine's counts, layers those that were tapped, guesses the trace's, a strip a pass."""
    records, counted = recorded(monkeypatch, furnished, method, **knobs)
    rounds = rounds_of(records)
    page, ways = play(records)
    for index, r in enumerate(rounds):
        at_round(page, index)
        told = ways.locator(".ways-count b").all_inner_texts()
        assert told[:3] == [str(counted.rounds[index][side]) for side in ("draft", "target")] + [str(len(r["emit"]))]
        drafting = ways.locator(".ways-strip:not(.is-target):not(.is-blank)")
        chips = ways.locator(".is-target [data-place]")
        assert chips.count() == len(r["draft"]) + 1
        assert [c.get_attribute("data-place") for c in chips.all()][:-1] == [str(d["slot"]) for d in r["draft"]]
        fates = [c.get_attribute("class").split()[1] for c in chips.all()]
        assert fates == [f"is-{v['verdict']}" for v in r["verify"]] + [f"is-{r['emit'][-1]['maker']}"]
        if method == "lm" and r["draft"]:
            assert drafting.count() == counted.rounds[index]["draft"] == len(r["draft"])
            for place, strip in enumerate(drafting.all()):  # as many of its own guesses go in as stand before it
                assert strip.locator(".ways-chip").count() == place + 1
        if method in ("dflash", "dspark") and r["draft"]:
            layers = re.search(r"layers ([\d, ]+), of (\d+) token", drafting.first.locator(".is-features").inner_text())
            assert [int(i) for i in layers[1].split(",")] == sorted(counted.taps)
            assert int(layers[2]) == r["prefix_len"] - 1
            assert [i for i, t in enumerate(drafting.first.locator(".ways-tower i").all())
                    if t.get_attribute("class")] == sorted(counted.taps)  # fmt: skip
            assert drafting.first.locator(".is-mask").count() == BLOCK - 1
            assert drafting.count() == (2 if knobs.get("markov", method == "dspark") else 1)
        if method == "ngram" and r["draft"]:
            begin, end = r["draft"][0]["source"]
            assert [int(b) for b in drafting.locator(".is-found b").all_inner_texts()] == [begin + 1, end]
            assert drafting.locator(".is-found .ways-chip").count() == len(r["copied"])


@pytest.mark.browser
def test_d11_an_older_trace_says_less(play):
    """Without what the drafter saw the page does not fill it in: no layers, no masks, no text."""
    models = support.HEADER["models"] | {"draft": {"name": "x", "weights": "none"}}
    page, ways = play(support.sure(support.toy(support.BLOCK, method="dspark", models=models)))
    scrub(page, 1)
    expect(ways.locator(".ways-strip:not(.is-target)").first).to_contain_text(words("en")["ways_unknown"])
    expect(ways.locator(".ways-told")).to_have_text(words("en")["ways_told_unknown"])
    assert ways.locator(".is-features, .is-mask, .is-text").count() == 0


@pytest.mark.browser
def test_q14_q38_what_a_guess_is_judged_behind_lights_up(play):
    """Pointing, focus and the tape's selection light the ancestors; siblings and what comes later step back."""
    records = support.toy(
        [([], [], "a"), (["b", "c", "d", "e"], ["kept", "rejected", "not_reached", "not_reached"], "f")], knobs={"k": 4}
    )
    for slot, parent in enumerate((None, 0, 0, 2)):  # a tree: c and d are siblings, e is behind d
        records[2]["draft"][slot]["parent"] = parent
    page, ways = play(records)
    scrub(page, 1)
    for slot, lit in ((3, [0, 2]), (1, [0]), (0, [])):
        ways.locator(f"[data-place='{slot}']").focus()
        expect(ways.locator(f"[data-place='{slot}']")).to_have_class(re.compile("is-here"))
        assert [int(c.get_attribute("data-place")) for c in ways.locator(".is-lit").all()] == lit
        apart = {c.get_attribute("data-place") for c in ways.locator(".is-apart").all()}
        assert apart == {str(i) for i in range(4) if i != slot and i not in lit} | {"own"}
        numbers = ways.locator(".ways-judged b").all_inner_texts()
        assert numbers == [str(slot + 1), "2", str(len(lit)), str(3 - len(lit))]
    ways.locator("[data-place=own]").hover()
    assert [int(c.get_attribute("data-place")) for c in ways.locator(".is-lit").all()] == [0]
    page.locator(".tape-stage [data-slot='2']").click()
    assert [int(c.get_attribute("data-place")) for c in ways.locator(".is-lit").all()] == [0]
    expect(ways.locator("[data-place='2']")).to_have_attribute("aria-pressed", "true")


# ---- the cache lane --------------------------------------------------------------------------------------------------


def walked(name, temperature, k=3, stop=()):
    """Records of a toy run, and the real length of the target's cache after every round."""
    engine, rounds, lengths = build(name, k=k), [], []
    for step in engine.generate(PROMPT, Sampling(max_new=24, temperature=temperature, seed=2, stop=frozenset(stop))):
        rounds.append(trace.describe(step, Letters(), rounds[-1] if rounds else None))
        lengths.append(engine.target.cache.length[step.sequence.row])
    ids = {"text": "toy", "raw": True, "ids": PROMPT}
    head = support.HEADER | {
        "prompt": ids,
        "method": name.split()[0],
        "knobs": {"k": k},
        "sampling": support.HEADER["sampling"] | {"max_new": 24},
    }
    return [head, *rounds, support.END], lengths


@pytest.mark.browser
@pytest.mark.parametrize("name,temperature", [("plain", 0.0), ("ngram", 0.0), ("lm", 1.0), ("self", 0.0), ("dflash", 1.0),
                                              ("dspark", 1.0), ("dspark", 0.0), ("tree", 1.0)])  # fmt: skip
def test_c11_q49_the_lane_is_as_long_as_the_engines_cache(play, name, temperature):
    """After every round the lane has the rows of the real cache; written, kept and cut add up, cell by cell and to scale."""
    records, lengths = walked(name, temperature)
    rounds, whole = rounds_of(records), len(PROMPT) + 24
    page, ways = play(records)
    for index, (r, length) in enumerate(zip(rounds, lengths, strict=True)):
        at_round(page, index)
        assert ways.locator(".ways-length b").inner_text() == str(length)
        parts = [
            (p.get_attribute("class")[3:], float(p.evaluate("i => i.style.flexGrow")))
            for p in ways.locator(".ways-lane i").all()
        ]
        kinds = {kind: sum(n for k, n in parts if k == kind) for kind, _ in parts}
        before = lengths[index - 1] if index else 0
        kept = kinds.get("anchor", 0) + kinds.get("kept", 0) if index else kinds["before"]
        assert before + kept == length and kinds["before"] == (before or length)
        assert kinds.get("cut", 0) == r["rows"] - kept
        assert sum(n for _, n in parts) == max(whole, before + r["rows"])
        numbers = [int(b) for b in ways.locator(".ways-story b").all_inner_texts()]
        assert numbers == ([r["rows"], before, kept, r["rows"] - kept, length] if index else [r["rows"]])
        cells = ways.locator(".ways-cell:not(.is-free):not(.is-before)")
        assert cells.count() == (r["rows"] if index else 0)
        stays = {0, *(e["slot"] + 1 for e in r["emit"][:-1])}
        for place, cell in enumerate(cells.all()):
            expect(cell).to_contain_text("stays" if place in stays else "cut")
            expect(cell.locator("small")).to_have_text(str(before + place + 1))


@pytest.mark.browser
def test_c11_a_stop_token_among_the_guesses_has_no_row(play):
    """A text that ends inside a draft: the accepted stop token is written but was never needed in the cache."""
    full, _ = walked("self", 0.0)
    kept = [e["token_id"] for e in rounds_of(full)[2]["emit"]]
    records, lengths = walked("self", 0.0, stop=[kept[1]])
    rounds = rounds_of(records)
    assert rounds[-1]["done"] == "stop" and rounds[-1]["final"] is None
    page, ways = play(records)
    scrub(page, 1)
    assert ways.locator(".ways-length b").inner_text() == str(lengths[-1])
    assert ways.locator(".ways-cell.is-kept").count() == len(rounds[-1]["emit"]) - 1


@pytest.mark.browser
def test_c11_before_the_pass_nothing_is_written(visit, toy):
    page = visit(toy)
    page.evaluate("document.activeElement.blur()")
    ways = view(page, "ways")
    at_round(page, 0)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowRight")
    expect(ways.locator(".ways-length b")).to_have_text("1")
    assert ways.locator(".ways-lane .is-written").count() == 0 == ways.locator(".ways-cell.is-written").count()
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    assert ways.locator(".ways-cell.is-written").count() == 4
    expect(ways.locator(".ways-length b")).to_have_text("1")


# ---- every method behind one prefix ----------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("method", METHODS)
def test_d12_behind_a_runs_own_prefix_its_method_repeats_the_round(furnished, method, temperature):
    """Same tokens, same settings: the same guesses, verdicts, draws and tokens; every method began with the same prefix."""
    sampling = Sampling(max_new=16, temperature=temperature, seed=7)
    knobs = {} if method == "plain" else {"k": 3}
    records = list(run(furnished, "abc abc abc", method, sampling, **knobs))
    ids, rounds = list(records[0]["prompt"]["ids"]), rounds_of(records)
    for r in rounds:
        if r["i"] in (1, 3, len(rounds) - 1):
            asked = {name: {} if name == "plain" else {"k": 3} for name in METHODS}
            rows = list(guess_here(furnished, ids, len(records[0]["prompt"]["ids"]), asked, sampling))
            assert [row["method"] for row in rows] == list(METHODS)
            assert {row["prefix"] for row in rows} == {trace.digest(ids)} and {row["length"] for row in rows} == {
                len(ids)
            }
            mine = next(row["round"] for row in rows if row["method"] == method)
            for part in ("emit", "rows", "prefix_len", "done"):
                assert mine[part] == r[part], part
            for part, fields in (("draft", ("token_id", "parent", "pass", "source")), ("verify", ("verdict", "u"))):
                assert [[x.get(f) for f in fields] for x in mine[part]] == [[x.get(f) for f in fields] for x in r[part]]
            assert [d["q_tok"] for d in mine["draft"]] == pytest.approx([d["q_tok"] for d in r["draft"]], rel=1e-3)
        ids += [e["token_id"] for e in r["emit"]]
    assert furnished.lm.cache._free == [0]  # nothing is left behind


def test_d12_a_method_without_weights_says_so_and_the_others_go_on(tiny):
    target = Target(load_model(str(tiny), dtype="float32"))
    rows = list(guess_here(target, [1, 2, 3], 2, {name: {} for name in METHODS}, Sampling()))
    assert {row["method"] for row in rows if "off" in row} == {"lm", "dflash", "dspark"}
    assert {row["method"] for row in rows if "round" in row} == {"plain", "ngram"}


def test_d12_the_same_prefix_is_hashed_as_it_was_in_the_engine(furnished, monkeypatch):
    """The hash is made of the sequence that was decoded, so a method that had been given other tokens would show."""
    real = Engine.submit

    def submit(engine, tokens, *given, **more):
        other = [*tokens[:-1], tokens[-1] + 1] if type(engine.drafter).__name__ == "NgramDrafter" else tokens
        return real(engine, other, *given, **more)

    monkeypatch.setattr(Engine, "submit", submit)
    rows = {
        r["method"]: r["prefix"] for r in guess_here(furnished, [5, 6, 7], 2, {"plain": {}, "ngram": {}}, Sampling())
    }
    assert rows["plain"] == trace.digest([5, 6, 7]) != rows["ngram"]


BAD = [
    ({"ids": "abc"}, "bad_prefix_size"), ({"ids": [1]}, "bad_prefix_size"), ({"ids": [1] * 1001}, "bad_prefix_size"),
    ({"ids": [1, 2.5]}, "bad_prefix_id"), ({"ids": [1, -1]}, "bad_prefix_id"), ({"ids": [1, True]}, "bad_prefix_id"),
    ({"ids": [1, "2"]}, "bad_prefix_id"), ({"ids": [1, None]}, "bad_prefix_id"), ({"prompt": 0}, "bad_whole"),
    ({"prompt": 4}, "bad_whole"), ({"prompt": "1"}, "bad_whole"), ({"methods": []}, "bad_choice"),
    ({"methods": "lm"}, "bad_choice"), ({"methods": ["lm", "eagle"]}, "bad_choice"), ({"methods": [["lm"]]}, "bad_choice"),
    ({"settings": []}, "bad_setting"), ({"settings": {"draft": "/etc"}}, "bad_setting"), ({"settings": {"k": 99}}, "bad_whole"),
    ({"settings": {"k": 2.5}}, "bad_whole"), ({"settings": {"temperature": float("nan")}}, "bad_number"),
    ({"settings": {"rule": "mine"}}, "bad_choice"), ({"settings": {"markov": 1}}, "bad_switch"),
]  # fmt: skip
GOOD = dict(ids=[1, 2, 3], prompt=2, methods=["plain", "ngram"], settings={"k": 4, "temperature": 0.5, "rule": "match"})


@pytest.mark.parametrize("wrong,key", BAD)
def test_d12_whatever_is_asked_wrongly_is_refused_in_words(wrong, key):
    asked = GOOD | wrong
    found = sources.guess_problem(*asked.values())
    assert found[0] == key
    for code in NAMES:
        assert "{" not in words(code)[key].format(**found[1])
    with pytest.raises(ValueError) as refused:
        sources.guesses(**asked, target="x")
    assert refused.value.args[0] == found
    assert sources.guess_problem(*GOOD.values()) is None


def test_d12_the_engine_is_asked_only_when_it_is_ready_and_the_ids_are_its_own(monkeypatch, furnished):
    def refusal(**wrong):
        with pytest.raises(ValueError) as refused:
            sources.guesses(**(GOOD | {"target": furnished.loaded.hash} | wrong))
        return refused.value.args[0][0]

    monkeypatch.setattr(sources, "_target", None)
    assert refusal() == "guess_not_ready"
    monkeypatch.setattr(sources, "_target", furnished)
    monkeypatch.setattr(sources, "_state", {"state": "load"})
    assert refusal() == "guess_not_ready"
    monkeypatch.setattr(sources, "_state", {"state": "ready"})
    monkeypatch.setattr(sources, "_begun", True)
    assert refusal(target="another") == "guess_other_model"
    assert refusal(ids=[1, 2, furnished.loaded.vocabulary.size]) == "bad_prefix_id"
    rows = sources.guesses(**(GOOD | {"methods": list(METHODS), "settings": {"k": 16}}), target=furnished.loaded.hash)
    assert [row["method"] for row in rows] == list(METHODS) and all(
        "round" in row for row in rows if row["method"] not in sources.BLOCKS
    )
    assert json.loads(sources.dumps(rows)) and not sources._line


def test_d12_it_waits_for_its_turn(monkeypatch, furnished):
    """Somebody else's run comes first; the place in the line is given back."""
    import threading

    monkeypatch.setattr(sources, "_target", furnished)
    monkeypatch.setattr(sources, "_state", {"state": "ready"})
    monkeypatch.setattr(sources, "_begun", True)
    sources._line.append("somebody")
    done = []
    asked = threading.Thread(target=lambda: done.append(sources.guesses(**GOOD, target=furnished.loaded.hash)))
    asked.start()
    asked.join(0.5)
    assert not done and len(sources._line) == 2
    sources._line.remove("somebody")
    asked.join(30)
    assert len(done[0]) == 2 and not sources._line


@pytest.fixture
def furnish_here():
    """The engine of this process gets weights for every method, for one test."""
    before = dict(sources._target.kept) if sources._target else {}
    yield lambda: furnish(sources._target)
    sources._target.kept.clear()
    sources._target.kept.update(before)


@pytest.mark.browser
def test_d12_every_method_guesses_behind_one_prefix_on_the_page(visit, toy, furnish_here):
    """A live run, then one round of every method behind the text of a round: one hash for all, the run's own repeats."""
    page = ready(visit(toy))
    ways = view(page, "ways")
    furnish_here()
    ask(page, "abc abc abc abc", tokens=24)
    finished(page)
    messages = []
    page.on("request", lambda r: messages.append(r.post_data) if r.url.endswith("/call/guesses") else None)
    at_round(page, 2)
    ways.get_by_role("button", name="Let every method guess here").click()
    expect(ways.locator(".ways-row")).to_have_count(len(METHODS), timeout=60_000)
    ids, prompt, methods, settings, _, _ = json.loads(messages[0])["data"]
    assert methods == list(sources.METHODS) == list(METHODS) and prompt < len(ids)
    k = int(page.get_by_role("spinbutton", name=re.compile("k: guesses")).first.input_value())
    assert settings["k"] == k > 1
    law = Sampling(settings["temperature"], seed=settings["seed"], max_new=settings["max_new"])
    rows = list(guess_here(sources._target, ids, prompt, {m: {} if m == "plain" else {"k": k} for m in methods}, law))
    for row, line in zip(rows, ways.locator(".ways-row").all(), strict=True):
        assert line.get_attribute("data-method") == row["method"]
        assert line.locator("code").inner_text() == trace.digest(ids) == row["prefix"]
        fates = [f"is-{v['verdict']}" for v in row["round"]["verify"]] + [f"is-{row['round']['emit'][-1]['maker']}"]
        assert [c.get_attribute("class").split()[1] for c in line.locator(".ways-chip").all()] == fates
        qs = [c.inner_text() for c in line.locator(".ways-chip small").all()]
        assert qs == [f"q {d['q_tok']:.2f}".replace(" 0", " ") for d in row["round"]["draft"]]
        numbers = [int(b) for b in line.locator(".ways-facts b").all_inner_texts()]
        passes = row["round"]["passes"]
        assert numbers == [passes["draft"], passes["target"], len(row["round"]["emit"]), len(ids)]
    expect(ways.locator("[data-method=ngram] .ways-label")).to_contain_text("= this run's round")
    most = max(len(row["round"]["emit"]) for row in rows)
    expect(ways.locator(".ways-verdict")).to_contain_text(str(most) if most > 1 else "no method's guess holds")
    at_round(page, 1)
    expect(ways.locator(".ways-row")).to_have_count(0)  # of another round
    at_round(page, 2)
    expect(ways.locator(".ways-row")).to_have_count(len(METHODS))
    assert len(messages) == 1
    found = Axe().run(page, context="#view-ways").response["violations"]
    assert not found, [
        (rule["id"], node["html"], node["any"][0]["message"]) for rule in found for node in rule["nodes"]
    ]


@pytest.mark.browser
def test_d12_another_models_run_is_refused_on_the_page(visit, toy):
    page = ready(visit(toy))
    scrub(page, 1)
    ways = view(page, "ways")
    ways.get_by_role("button", name="Let every method guess here").click()
    expect(ways.locator(".ways-why")).to_contain_text("another model")
    assert ways.locator(".ways-row").count() == 0


@pytest.mark.browser
def test_d12_without_ids_or_without_a_server_the_button_says_why(play):
    records = support.toy(support.PLAIN)
    nobody = "{ guesses() {}, engine: { methods: [], state: () => null, hear() {} } }"
    without = [records[0] | {"prompt": {"text": "toy prompt"}}, *records[1:]]
    for given, more, why in (
        (records, "{}", "offline"),
        (without, nobody, "unfinished"),
        (records, nobody, "ask_note"),
    ):
        page, ways = play(given, more)
        expect(ways.locator(".ways-why")).to_contain_text(words("en")["ways_" + why].split("{")[0])
        assert ways.locator(".ways-ask").is_disabled() == (why != "ask_note")


@pytest.mark.browser
def test_d12_the_endpoint_refuses_in_the_visitors_language(visit, toy):
    ready(visit(toy))
    client = Client(toy, verbose=False)
    for code in NAMES:
        with pytest.raises(Exception, match=re.escape(words(code)["bad_prefix_id"].format(given="-1"))):
            client.predict([1, -1], 1, ["plain"], {}, "x", code, api_name="/guesses")


# ---- the methods there are -------------------------------------------------------------------------------------------


def test_d3_d10_the_page_offers_what_the_engine_has():
    assert list(sources.METHODS) == list(METHODS)


@pytest.mark.browser
def test_d3_d10_which_methods_run_is_the_engines_word(visit, toy):
    """Every method of the engine's list is there, on unless the engine called it off; the others are told about, with the cause
    and without a run."""
    page = ready(visit(toy))
    off = sources._state["off"].split(", ")
    assert off == ["lm", "dflash", "dspark"]  # nobody trained for this random model
    lines = view(page, "ways").locator(".ways-map tbody tr")
    told = {line.get_attribute("data-method"): line.locator(".ways-status").inner_text() for line in lines.all()}
    assert list(told)[: len(METHODS)] == list(METHODS)
    beyond = {"medusa", "exit", "eagle", "eagle2", "eagle3", "mtp"}
    assert set(told) - set(METHODS) == beyond
    for name, status in told.items():
        wanted = "not in this program yet" if name in beyond else "no trained weights" if name in off else "runs here"
        assert wanted in status, name
        assert lines.locator(f"xpath=self::*[@data-method='{name}']").locator("td").first.inner_text() not in ("", "–")


@pytest.mark.browser
def test_d3_d10_a_method_that_joins_the_engine_is_no_longer_called_missing(play):
    engine = "{ engine: { methods: ['plain', 'eagle'], state: () => ({ name: 'x', off: [] }), hear() {} } }"
    _, ways = play(support.toy(support.PLAIN), engine)
    expect(ways.locator("tr[data-method=eagle] .ways-status")).to_contain_text("runs here")
    assert ways.locator("tr[data-method=eagle]").count() == 1
    expect(ways.locator("tr[data-method=lm]")).to_have_count(0)


# ---- comfort ---------------------------------------------------------------------------------------------------------


@pytest.mark.browser
@pytest.mark.parametrize("method,knobs", CASES[:5])
@pytest.mark.parametrize("code", NAMES)
def test_n6_no_shift_and_no_sideways_scroll_while_a_run_plays(play, furnished, monkeypatch, code, method, knobs):
    records, _ = recorded(monkeypatch, furnished, method, **knobs)
    page, ways = play(records)
    page.evaluate("code => specscope.relabel(code)", code)
    for width in (360, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        page, ways = play(records)
        at_round(page, 0)
        heights = {}
        for _ in range(40):
            parts = [ways.locator(part).bounding_box()["height"] for part in (".ways-sees", ".ways-cache")]
            heights.setdefault(tuple(parts), page.locator(".tape-place").inner_text())
            page.keyboard.press("ArrowRight")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert len(heights) == 1, (width, heights)


def test_every_word_of_the_view_is_used():
    source = (sources.TRACES.parent / "ways.js").read_text() + (sources.TRACES.parent / "viewer.js").read_text()
    for key in words("en"):
        if key.startswith("ways_") and f'"{key}"' not in source:
            stem = key.rsplit("_", 1)[0] + "_"
            assert stem in source or key.removesuffix("_pass").rsplit("_", 1)[0] + "_" in source, key
    assert all(f"ways_sees_{m}" in words("en") and f"ways_name_{m}" in words("en") for m in itertools.chain(METHODS))
