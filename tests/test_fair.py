"""Why it is fair: golden numbers through the engine, its draws under right and wrong rules, and the view that shows them."""

import json
import math
import random
import re

import browser_support as support
import pytest
import torch
from browser_support import scrub, view
from gradio_client import Client
from playwright.sync_api import expect
from test_trace import Letters, records

from app import sources, ui
from app.tape import ASSETS, scripts, viewer
from app.words import NAMES, words
from engine import trace
from engine.lessons import LESSONS
from engine.sampling import draw, warp
from engine.types import Sampling
from engine.verify import RULES, residual

P, Q = [0.40, 0.35, 0.25], [0.10, 0.10, 0.80]
GOLDEN = {  # what each rule gives in the long run, and how often it keeps a guess
    "exact": (P, 0.45), "match": (P, 0.275), "spike": (P, 0.25), "resample": ([0.32, 0.2925, 0.3875], 0.45),
    "argmax": ([0.65, 0.10, 0.25], 0.45), "greedy": ([0.375, 0.3125, 0.3125], 0.3125), "typical": (Q, 1.0),
    "tolerance": ([0.1 + 0.8 * 0.4, 0.1 + 0.8 * 0.35, 0.8 * 0.25], 0.2),
}  # fmt: skip


def vector(values):
    return torch.tensor(values, dtype=torch.float64)


def band(n, p, share):
    """Binomial quantiles, summed term by term."""
    if p in (0, 1):
        return [n * p, n * p]
    below, found = 0.0, []
    for k in range(n + 1):
        below += math.exp(
            math.lgamma(n + 1)
            - math.lgamma(k + 1)
            - math.lgamma(n - k + 1)
            + k * math.log(p)
            + (n - k) * math.log1p(-p)
        )
        if not found and below > (1 - share) / 2:
            found.append(k)
        if below >= 1 - (1 - share) / 2:
            return [*found, k]
    return [*found, n]


def inside(counts, law):
    """Every count in a band that all of them keep together in 99 of 100 honest series."""
    n, share = sum(counts), 1 - 0.01 / len(law)
    return all(
        low <= count <= high for count, (low, high) in zip(counts, (band(n, p, share) for p in law), strict=True)
    )


# ---- the engine ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GOLDEN)
def test_c4_c7_golden_laws_and_chances(name):
    """The law that comes out and the share of kept guesses, exactly, for the golden pair."""
    law, chance = GOLDEN[name]
    lesson = LESSONS[name]
    assert lesson.law(vector(P), vector(Q)).tolist() == pytest.approx(law, abs=1e-12)
    assert lesson.chance(vector(P), vector(Q)) == pytest.approx(chance, abs=1e-12)


def test_c4_equal_laws_rejection_keeps_all_and_match_keeps_the_sum_of_squares():
    p = vector(P)
    assert LESSONS["exact"].chance(p, p) == pytest.approx(1)
    assert LESSONS["match"].chance(p, p) == pytest.approx(0.345)


def test_c5_golden_residual_and_both_roads_make_p():
    p, q = vector(P), vector(Q)
    left = residual(p, q)
    assert left.tolist() == pytest.approx([6 / 11, 5 / 11, 0], abs=1e-12)
    core = torch.minimum(p, q)
    assert float(core.sum()) == pytest.approx(0.45) == pytest.approx(1 - float((p - q).abs().sum()) / 2)
    assert (core + (1 - core.sum()) * left - p).abs().max() < 1e-12


@pytest.mark.parametrize("seed", [1, 5, 11])
@pytest.mark.parametrize("name", GOLDEN)
def test_c6_c7_c8_a_thousand_draws_agree_with_every_mark(name, seed):
    """Lossless rules stay in the band around p, all others leave it; every rule stays around its own law."""
    told = sources.draws(P, Q, name, 1000, seed)
    counts = [told["tokens"].count(i) for i in range(3)]
    assert inside(counts, P) == (told["mark"] == "lossless")
    assert inside(counts, told["law"])
    low, high = band(1000, told["chance"], 0.99)
    assert low <= sum(told["kept"]) <= high


def test_c6_the_draws_are_verify_s_and_repeat(monkeypatch):
    """Every guess goes through the engine's own walk; the same seed gives the same draws, another seed others."""
    from engine import lessons

    calls, real = [], lessons.verify
    monkeypatch.setattr(lessons, "verify", lambda *given: calls.append(given) or real(*given))
    one, two, other = (sources.draws(P, Q, "exact", 50, seed) for seed in (1, 1, 2))
    assert len(calls) == 150 and one == two and one != other


def test_c7_wrong_rules_are_never_offered_for_decoding():
    """The lessons hold all decoding rules with their own marks, and what they add can decode nothing."""
    assert set(sources.LESSONS) == set(LESSONS) and set(RULES) <= set(LESSONS)
    assert set(sources.RULES) == set(RULES)
    for name, lesson in LESSONS.items():
        assert (lesson.mark == "lossless") == (GOLDEN[name][0] == P)
        if name in RULES:
            assert lesson.rule is RULES[name]
        else:
            assert sources.problems({**GIVEN, "rule": name})["rule"][0] == "bad_choice"


GIVEN = {"prompt": "hi", "method": "ngram", "k": 4, "temperature": 0, "top_p": 1, "seed": 0, "max_new": 8, "rule": "exact",
         "top_k": 0, "min_p": 0, "sampled": False, "markov": True, "confidence": True, "threshold": 0}  # fmt: skip


@pytest.mark.parametrize(
    "name,temperature", [("lm", 1.0), ("tree", 1.0), ("dspark", 0.8), ("ngram", 1.0), ("dflash", 1.0), ("plain", 0.0)]
)
def test_c4_the_trace_holds_the_overlap(name, temperature):
    """Summed over the whole vocabulary: min(p, q), or p of the token where the drafter did not draw."""
    rounds, steps = records(name, max_new=30, temperature=temperature)
    for record, step in zip(rounds, steps, strict=True):
        for v, d in zip(record["verify"], record["draft"], strict=True):
            p = step.p[0 if d["parent"] is None else d["parent"] + 1]
            q = step.proposal.q[d["slot"]] if step.proposal.q is not None else torch.eye(len(p))[d["token_id"]]
            assert v["overlap"] == pytest.approx(1 - float((p.cpu() - q.cpu()).abs().sum()) / 2, abs=1e-5)
            assert 0 <= v["overlap"] <= 1


# ---- the endpoint ----------------------------------------------------------------------------------------------------

BAD = [
    ({"p": [0.5] * 3}, "p sums to 1.5"), ({"q": [0.2, 0.2]}, "q sums to 0.4"), ({"p": [1.0]}, "2 to 16"),
    ({"p": "abc"}, "2 to 16"),
    ({"q": [1 / 17] * 17}, "2 to 16"), ({"q": None}, "2 to 16"), ({"p": [float("nan"), 0.5, 0.5]}, "from 0 to 1"),
    ({"p": [-0.5, 1, 0.5]}, "from 0 to 1"), ({"q": [float("inf"), 0, 0]}, "from 0 to 1"), ({"q": ["1", 0, 0]}, "from 0 to 1"),
    ({"q": [True, 0, 0]}, "from 0 to 1"), ({"q": [0.5, 0.5]}, "p has 3 numbers and q has 2"), ({"rule": "magic"}, "possible"),
    ({"rule": ["exact"]}, "possible"), ({"n": 10**9}, "from 1 to 1000"), ({"n": 0}, "from 1 to 1000"), ({"n": 2.5}, "whole"),
    ({"n": "9"}, "whole"), ({"n": float("nan")}, "whole"), ({"seed": -1}, "whole"), ({"seed": None}, "whole"),
    ({"seed": 1e300}, "whole"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "told"), BAD)
def test_draws_refuse_bad_input_in_every_language(change, told):
    """One clear sentence, the same for the page and for clients of the API; nothing is computed."""
    given = {"p": P, "q": Q, "rule": "exact", "n": 10, "seed": 1} | change
    with pytest.raises(ValueError) as refused:
        sources.draws(**given)
    for code in NAMES:
        sentence = ui._sentence(words(code), *refused.value.args[0])
        assert "{" not in sentence and len(sentence) < 200
        assert code != "en" or told in sentence


def test_draws_through_the_api(toy):
    """A public endpoint: the same numbers as in this process, the same sentences when refused."""
    client = Client(toy, verbose=False)
    assert client.predict(P, Q, "argmax", 100, 3, "en", api_name="/draws") == sources.draws(P, Q, "argmax", 100, 3)
    for values, told in (
        ([P, Q, "exact", 10**9, 1, "en"], "from 1 to 1000"),
        ([P, "q", "exact", 10, 1, "zh"], "必须是"),
        ([[2, -1], Q, "exact", 10, 1, ["en"]], "from 0 to 1"),
    ):
        with pytest.raises(Exception, match=told):
            client.predict(*values, api_name="/draws")


# ---- arithmetic of the view, against the engine's --------------------------------------------------------------------


def js(page, body, given=None):
    """Run a function body with the viewer's own functions at hand."""
    page.goto("about:blank")
    return page.evaluate(
        "([code, given]) => new Function('given', code)(given)",
        [f"{scripts()}\n{body}", [] if given is None else given],
    )


@pytest.mark.browser
def test_c9_the_view_warps_as_the_engine_does(page):
    """Temperature, top-k and top-p on hundreds of laws with ties and zeros: the same to 1e-12."""
    rng, cases = random.Random(5), []
    for _ in range(400):
        weights = [rng.choice([0, 1, 1, 2, 3, 5, rng.random()]) for _ in range(rng.randint(2, 9))]
        weights[rng.randrange(len(weights))] += 1
        law = [w / sum(weights) for w in weights]
        cases.append([law, {"temperature": rng.choice([0, 0.1, 0.5, 1, 1.4, 2]), "top_k": rng.choice([0, 0, 1, 2, 3, 20]),
                            "top_p": rng.choice([1, 1, 0.05, 0.3, 0.5, 0.9])}])  # fmt: skip
    got = js(page, "return given.map(([law, settings]) => warpOf(law, settings))", cases)
    for (law, settings), mine in zip(cases, got, strict=True):
        assert mine == pytest.approx(warp(vector(law).log(), Sampling(**settings)).tolist(), abs=1e-12), (law, settings)


@pytest.mark.browser
def test_c5_c6_the_view_s_arithmetic(page):
    """Overlap, residual, the picked token, the band and the expected distance: against the engine and against sums."""
    rng, pairs = random.Random(2), [[P, Q], [P, P]]
    for _ in range(60):
        pairs.append([[x / sum(row) for x in row] for row in [[rng.random() ** 3 for _ in range(5)] for _ in "pq"]])
    got = js(
        page, "return given.map(([p, q]) => [overlapOf(p, q), leftOf(p, q), pickFrom(leftOf(p, q).law, 0.37)])", pairs
    )
    for (p, q), (overlap, left, picked) in zip(pairs, got, strict=True):
        p, q = vector(p), vector(q)
        law = residual(p, q)
        assert overlap == pytest.approx(float(torch.minimum(p, q).sum()), abs=1e-12)
        assert left["law"] == pytest.approx(law.tolist(), abs=1e-12)
        assert vector(left["left"]) + torch.minimum(p, q) == pytest.approx(p, abs=1e-12)
        assert picked == int(draw(law, torch.tensor(0.37, dtype=torch.float64)))
    cases = [
        [n, p, share] for n in (1, 7, 100, 1000) for p in (0, 0.01, 0.3125, 0.5, 0.97, 1) for share in (0.95, 0.98)
    ]
    assert js(page, "return given.map(([n, p, share]) => bandOf(n, p, share))", cases) == [
        band(*case) for case in cases
    ]
    expected = js(page, "return noiseOf(1000, given)", P)
    shares = torch.distributions.Multinomial(1000, vector(P)).sample((4000,)) / 1000
    assert expected == pytest.approx(float((shares - vector(P)).abs().sum(-1).mean()) / 2, rel=0.05)


# ---- the view --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured(tiny, tmp_path_factory):
    """A page that plays a real run of a tiny model, and that run's rounds."""
    rounds, _ = records("lm", max_new=60, temperature=0.9, seed=3)
    rounds[-1]["done"] = "length"
    folder = tmp_path_factory.mktemp("measured")
    head = support.HEADER | {"method": "lm", "badge": "measured", "knobs": {"k": 4}, "id": "lm"}
    head["sampling"] = head["sampling"] | {"temperature": 0.9}
    support.keep([head, *rounds, support.END], folder)
    with support.serving(folder) as url:
        yield url, rounds


def digits(x):
    """Numbers as the view writes them."""
    if 0 < x < 0.001:
        return "<1e-6" if x < 1e-6 else re.sub(r"e-0*", "e-", f"{x:.1e}")
    return f"{x:.{4 if x < 0.01 else 3}f}" if x else "0"


def opened(page):
    scrub(page, 1)
    return view(page, "fair")


def pointed(page, index, slot):
    page.locator(f".tape-grid [data-round='{index}'][data-slot='{slot}']").first.click()


def slots(rounds, verdict):
    """(round, slot) of every guess with that verdict."""
    return [(r["i"], v["slot"]) for r in rounds for v in r["verify"] if v["verdict"] == verdict]


@pytest.mark.browser
def test_c1_c2_chance_and_draw_are_the_run_s(visit, measured):
    """In words and symbols: min(1, p / q) of that very guess, its u, and what followed; bar and needle stand where they say."""
    url, rounds = measured
    fair = opened(visit(url))
    for verdict, told in (("kept", "accepted."), ("rejected", "rejected."), ("not_reached", "nothing was drawn")):
        for index, slot in slots(rounds, verdict)[:3]:
            pointed(fair.page, index, slot)
            d, v = rounds[index]["draft"][slot], rounds[index]["verify"][slot]
            text = fair.locator(".fair-ruler + .fair-say").inner_text()
            chance = min(1, v["p_tok"] / d["q_tok"])
            assert f"min(1, {digits(v['p_tok'])} / {digits(d['q_tok'])}) = {digits(chance)}" in text
            assert told in text and f"round {index + 1}" in fair.locator(".fair-title").inner_text()
            fair.page.wait_for_timeout(300)  # the bar's way there
            track, bar = (fair.locator(s).bounding_box() for s in (".fair-track", ".fair-chance"))
            assert bar["width"] / track["width"] == pytest.approx(max(chance, 3 / track["width"]), abs=0.01)
            needle = fair.locator(".fair-needle")
            assert needle.is_visible() == (verdict != "not_reached")
            if verdict == "not_reached":
                continue
            assert f"u = {digits(v['u'])}" in text and (v["u"] < chance) == (verdict == "kept")
            at = (needle.bounding_box()["x"] - track["x"]) / track["width"]
            assert at == pytest.approx(v["u"], abs=0.01)


@pytest.mark.browser
def test_c2_redraws_are_tallied_apart_from_the_run(visit, toy):
    """A thousand new draws for the toy's chance stay in a wide band; key r draws once; the tally says whose they are."""
    page = visit(toy)
    page.keyboard.press("r")  # opens the view by itself
    fair = page.locator("#view-fair")
    expect(fair).to_be_visible()
    assert fair.locator(".fair-tally b").all_inner_texts()[1] == "1"
    for _ in range(10):
        fair.get_by_role("button", name="100 times").click()
    assert "not part of the run" in fair.locator(".fair-tally").inner_text()
    kept, n, low, high = map(int, fair.locator(".fair-tally b").all_inner_texts())
    assert n == 1001 and [low, high] == band(1001, 0.3125, 0.95)
    widest = band(1001, 0.3125, 1 - 1e-9)
    assert widest[0] <= kept <= widest[1]
    drawn = fair.locator(".fair-rug path").evaluate_all(
        "paths => paths.map(p => p.getAttribute('d').split('M').slice(1).map(parseFloat))"
    )
    assert (
        all(x <= 312.5 for x in drawn[0]) and all(x >= 312.5 for x in drawn[1]) and len(drawn[0]) + len(drawn[1]) == 300
    )
    expect(fair.locator(".fair-ruler")).to_have_attribute("aria-label", re.compile("0.313.*u = 0.620.*rejected"))
    fair.get_by_role("button", name="Guess this token: A").click()
    assert not fair.locator(".fair-tally b").count()  # another chance, another series


@pytest.mark.browser
def test_c3_both_sides_sum_to_one_in_one_order(visit, measured):
    """q left, p right, one row per token and 'all others': each side sums to 1; the filled part is the smaller of the two."""
    url, rounds = measured
    fair = opened(visit(url))
    for index, slot in slots(rounds, "kept")[:2] + slots(rounds, "rejected")[:2]:
        pointed(fair.page, index, slot)
        rows = fair.locator(".fair-basis .fair-law tbody tr").evaluate_all(
            """rows => rows.map(({ children }) => { const read = (i, name) => Number(children[i].style.getPropertyValue(name));
            return { name: children[2].textContent, texts: [0, 4].map(i => children[i].textContent),
                     sizes: [1, 3].map(i => read(i, "--size")), cores: [1, 3].map(i => read(i, "--core")) }; })"""
        )
        d, v = rounds[index]["draft"][slot], rounds[index]["verify"][slot]
        assert rows[-1]["name"] == "all others" and rows[-1]["cores"] == [0, 0]
        for side in (0, 1):
            assert sum(row["sizes"][side] for row in rows) == pytest.approx(1, abs=1e-4)
            shown = [row["sizes"][side] for row in rows[:-1] if row["texts"][side] != "–"]
            known = [d["q_top"], v["p_top"]][side]
            assert set(map(digits, shown)) <= {digits(x) for _, x in known} | {
                digits(d["q_tok"]),
                digits(v["p_tok"]),
                "0",
            }
        assert all(row["cores"] == [min(row["sizes"])] * 2 for row in rows[:-1])


@pytest.mark.browser
def test_c4_overlap_is_the_trace_s_or_is_not_told(visit, measured, toy):
    """The sum over all tokens comes from the record; a record without it shows no number. The golden pair has .45."""
    url, rounds = measured
    fair = opened(visit(url))
    for index, slot in slots(rounds, "kept")[:2] + slots(rounds, "not_reached")[:1]:
        pointed(fair.page, index, slot)
        told = fair.locator(".fair-basis > .fair-say").first
        assert digits(rounds[index]["verify"][slot]["overlap"]) in told.locator("b").inner_text()
    fair = opened(visit(toy))
    pointed(fair.page, 1, 0)
    told = fair.locator(".fair-basis > .fair-say").first
    assert not told.is_visible()
    fair.get_by_role("button", name="A small pair").click()
    assert told.locator("b").inner_text() == "0.450"
    expect(fair.locator(".fair-badge")).to_contain_text("toy")


def left(fair):
    """Name and number of every row of the residual."""
    return {
        row.locator("th").inner_text(): row.locator(".fair-number").inner_text()
        for row in fair.locator(".fair-left tbody tr").all()
    }


@pytest.mark.browser
def test_c5_the_residual_step_by_step(visit, measured, toy):
    """Golden pair: p, what is left, rescaled to (.545, .455, 0), one drawn. A refused guess of a run: its record's residual."""
    fair = opened(visit(toy))
    expected = {1: P, 2: [0.3, 0.25, 0], 3: [6 / 11, 5 / 11, 0], 4: [6 / 11, 5 / 11, 0]}
    for step, law in expected.items():
        fair.locator(f".fair-step [data-value='{step}']").click()
        assert left(fair) == dict(zip("ABC", map(digits, law), strict=True))
    dropped = set()
    for _ in range(30):
        fair.locator(".fair-step [data-value='4']").click()
        dropped.add(fair.locator(".fair-left .is-here th").inner_text())
    assert dropped == {"A", "B"}
    fair.locator(".fair-step [data-value='2']").click()
    assert "0.100 + 0.300 = 0.400" in fair.locator(".fair-left + .fair-say").inner_text()
    fair.get_by_role("button", name="p = q").click()
    assert "nothing is left" in fair.locator(".fair-left + .fair-say").inner_text()

    url, rounds = measured
    fair = opened(visit(url))
    fair.locator(".fair-step [data-value='4']").click()
    for index, slot in slots(rounds, "rejected")[:3]:
        final = rounds[index]["final"]
        pointed(fair.page, index, slot)
        top = {Letters().piece(i): digits(x) for i, x in final["residual_top"] if isinstance(Letters().piece(i), str)}
        shown = left(fair)
        assert all(
            shown[n] == top[n] if n in top else shown[n] in "0–" for n in shown if n not in ("all others", "F0 9F")
        )
        assert fair.locator(".fair-left .is-here .fair-number").inner_text() == digits(
            dict(final["residual_top"])[final["token_id"]]
        )
        assert f"u = {digits(final['u'])}" in fair.locator(".fair-left + .fair-say").inner_text()
        pointed(fair.page, index, "own")  # the correction tells about the guess it replaced
        assert left(fair) == shown
    pointed(fair.page, *slots(rounds, "kept")[0])
    assert (
        "was accepted" in fair.locator(".fair-left + .fair-say").inner_text()
        and not fair.locator(".fair-left").is_visible()
    )


def thousand(fair, name):
    """Draw a thousand under a rule: drawn shares, p, the rule's law; the sentence and the verdict."""
    fair.locator(".fair-rules").select_option(name)
    button = fair.get_by_role("button", name="Draw 1000")
    button.click()
    expect(fair.locator(".fair-verdict")).to_contain_text(re.compile("box"), timeout=20_000)
    rows = [
        [float(x) for x in row.locator("td").all_inner_texts()[1:]]
        for row in fair.locator(".fair-draws tbody tr").all()
    ]
    return [list(column) for column in zip(*rows, strict=True)], fair


@pytest.mark.browser
def test_c6_c7_c8_the_histogram_grows_from_the_engine_s_draws(visit, toy):
    """Every rule on the golden pair: shares are the engine's counts, marks and verdicts agree, the distance is recomputed."""
    fair = opened(visit(toy))
    fair.get_by_role("button", name="A thousand draws").click()
    groups = fair.locator(".fair-rules optgroup").evaluate_all("all => all.map(g => [...g.children].map(o => o.value))")
    marks = [{LESSONS[name].mark for name in group} for group in groups]
    assert marks == [{"lossless"}, {"lossy"}, {"wrong"}] and sum(groups, []) == list(dict.fromkeys(sum(groups, [])))
    assert {name for group in groups for name in group} == set(LESSONS)
    fair.locator(".fair-draws").evaluate("""t => { window.steps = new Set(); new MutationObserver(() =>
        steps.add(t.querySelector("tbody td:nth-child(3)").textContent)).observe(t, { childList: true, subtree: true }); }""")
    for name in LESSONS:
        (drawn, p, law), _ = thousand(fair, name)
        told = sources.draws(P, Q, name, 1000, 1)
        shares = [told["tokens"].count(i) / 1000 for i in range(3)]
        assert drawn == pytest.approx(shares, abs=1e-9) and p == P and law == pytest.approx(told["law"], abs=6e-4)
        honest = inside([told["tokens"].count(i) for i in range(3)], P)
        assert (
            ("stays in its box" in fair.locator(".fair-verdict").inner_text()) == honest == (told["mark"] == "lossless")
        )
        assert told["mark"] in fair.locator(".fair-mark").first.inner_text()
        n, apart, _, kept, share, chance = fair.locator(".fair-draws + .fair-say b").all_inner_texts()
        assert (n, int(kept), float(share)) == ("1000", sum(told["kept"]), sum(told["kept"]) / 1000)
        assert float(apart) == pytest.approx(sum(abs(a - b) for a, b in zip(shares, P, strict=True)) / 2, abs=6e-4)
        assert float(chance) == pytest.approx(GOLDEN[name][1], abs=6e-4)
    assert fair.page.evaluate("steps.size") > 10  # it grew
    fair.locator(".fair-rules").select_option("exact")
    for n in (1000, 2000):
        fair.get_by_role("button", name="Draw 1000").click()
        expect(fair.locator(".fair-draws + .fair-say b").first).to_have_text(str(n), timeout=20_000)
        expect(fair.locator(".fair-verdict")).to_contain_text("box", timeout=20_000)


@pytest.mark.browser
def test_c6_without_an_engine_the_button_says_so(page, toy, visit):
    """The viewer mounted by a source without draws, as in a file of its own; and an engine that fails is an error in words."""
    visit(toy)
    page.evaluate(
        """code => { const place = document.querySelector(".tape"), { words, experiment } = specscope;
        const mount = code + ";mountViewer(place, { words, experiment, connect() {} })";
        new Function("place", "words", "experiment", mount)(place, words, experiment); }""",
        viewer(),
    )
    fair = view(page, "fair")
    fair.get_by_role("button", name="A thousand draws").click()
    expect(fair.get_by_role("button", name="Draw 1000")).to_be_disabled()
    assert "needs the live page" in fair.inner_text()
    page.evaluate(
        """code => { const place = document.querySelector(".tape"), { words, experiment } = specscope;
        const draws = () => Promise.reject(new Error("no engine today"));
        const mount = code + ";mountViewer(place, { words, experiment, draws, connect() {} })";
        new Function("place", "words", "experiment", "draws", mount)(place, words, experiment, draws); }""",
        viewer(),
    )
    fair = view(page, "fair")
    fair.get_by_role("button", name="A thousand draws").click()
    fair.get_by_role("button", name="Draw 1000").click()
    expect(fair.locator(".fair-verdict")).to_have_text("no engine today")
    expect(fair.get_by_role("button", name="Draw 1000")).to_be_enabled()


def table(fair, nth):
    """Texts (q, p) of a table of laws by token."""
    rows = fair.locator(".fair-law").nth(nth).locator("tbody tr").all()
    return {
        row.locator("th").inner_text(): [row.locator("td").first.inner_text(), row.locator("td").last.inner_text()]
        for row in rows
    }


@pytest.mark.browser
def test_c9_settings_act_first_and_zero_is_never_kept(visit, toy, measured):
    """Before and after on both sides; at T=0 both are one spike; a token with p = 0 has chance 0 in a hundred draws."""
    fair = opened(visit(toy))
    fair.get_by_role("button", name="Settings first").click()
    assert table(fair, 1) == table(fair, 2) == {t: [digits(q), digits(p)] for t, q, p in zip("ABC", Q, P, strict=True)}
    for label, name, value in (("Temperature", "temperature", 0.5), ("Top-k", "top_k", 2), ("Top-p", "top_p", 0.5)):
        fair.get_by_label(label, exact=True).fill(str(value))
        settings = Sampling(**{"temperature": 1.0, name: value})
        after = [warp(vector(law).log(), settings).tolist() for law in (Q, P)]
        assert table(fair, 2) == {t: [digits(q), digits(p)] for t, q, p in zip("ABC", *after, strict=True)}
        assert table(fair, 1)["C"] == ["0.800", "0.250"]
        fair.get_by_role("button", name="Put them back").click()
    fair.get_by_label("Temperature", exact=True).fill("0")
    assert table(fair, 2) == {"A": ["0", "1.000"], "B": ["0", "0"], "C": ["1.000", "0"]}
    assert "one spike" in fair.inner_text() and "min(1, 0 / 1.000) = 0." in fair.inner_text()
    assert "C p is now 0" in fair.inner_text().replace("B, ", "")
    fair.get_by_role("button", name="100 times").click()
    assert fair.locator(".fair-tally b").first.inner_text() == "0"
    fair.get_by_role("button", name="A thousand draws").click()
    (drawn, p, _), _ = thousand(fair, "exact")
    assert drawn == p == [1, 0, 0]  # the engine agrees

    url, rounds = measured
    fair = opened(visit(url))
    index, slot = slots(rounds, "rejected")[0]
    pointed(fair.page, index, slot)
    fair.get_by_role("button", name="Settings first").click()
    d, v = rounds[index]["draft"][slot], rounds[index]["verify"][slot]
    token = Letters().piece(d["token_id"])
    assert table(fair, 1)[token] == [digits(d["q_own_tok"]), digits(v["p_own_tok"])]
    assert table(fair, 2)[token] == table(fair, 0)[token] == [digits(d["q_tok"]), digits(v["p_tok"])]
    assert "temperature 0.9" in fair.inner_text()


@pytest.mark.browser
def test_the_small_pair_stays_a_pair_of_laws(visit, toy):
    """Whatever is typed, the others make room; focus stays; presets answer what is asked of them."""
    fair = opened(visit(toy))
    box = fair.get_by_label("p of A")
    for typed, shown in (("0.5", 0.5), ("7", 1), ("-3", 0), ("", 0)):
        box.fill(typed)
        box.press("Enter")
        law = [float(fair.get_by_label(f"p of {t}").input_value()) for t in "ABC"]
        assert law[0] == shown and sum(law) == pytest.approx(1, abs=2e-4)
        assert box.evaluate("b => b === document.activeElement")
    fair.get_by_role("button", name="an over-eager drafter").click()
    fair.get_by_role("button", name="q bets on one token").click()
    assert [fair.get_by_label(f"q of {t}").input_value() for t in "ABC"] == ["0", "0", "1"]
    assert "0.250 / 1.000) = 0.250" in fair.inner_text()


@pytest.mark.browser
def test_5_9_the_histogram_by_keyboard_without_motion(browser, toy):
    """Reduced motion, 360 px, keyboard only: Tab, arrows and Enter lead to a thousand draws; nothing is cut off."""
    context = browser.new_context(reduced_motion="reduce", locale="en-US", viewport={"width": 360, "height": 800})
    page = context.new_page()
    page.goto(toy)
    page.wait_for_selector(".tape-line:not([hidden])")
    page.locator(".view-tab[aria-selected=true]").focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    for name in ("A thousand draws", "Draw 1000"):
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.textContent") == name:
                break
        page.keyboard.press("Enter")
    expect(page.locator(".fair-verdict")).to_contain_text("stays in its box", timeout=20_000)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_u17_the_view_is_accessible_in_both_themes(visit, toy, theme):
    """axe finds nothing serious on any of its panels, with a guess of the run and with the small pair."""
    from axe_playwright_python.sync_playwright import Axe

    fair = opened(visit(f"{toy}/?__theme={theme}"))
    for whose in ("A small pair", "A guess of this run"):
        fair.get_by_role("button", name=whose).click()
        for part in ("What is left", "A thousand draws", "Settings first"):
            fair.get_by_role("button", name=part).click()
            found = Axe().run(fair.page, context="#view-fair").response["violations"]
            found = [v for v in found if v["impact"] in ("serious", "critical")]
            assert not found, [(v["id"], [n["html"][:120] for n in v["nodes"]][:4]) for v in found]


@pytest.mark.browser
def test_r30_every_sentence_in_chinese(visit, measured):
    """The switch relabels the view with its numbers in place; no English sentence is left."""
    url, rounds = measured
    fair = opened(visit(f"{url}/?lang=zh"))
    pointed(fair.page, *slots(rounds, "rejected")[0])
    for part in ("剩下的部分", "设置在先", "抽一千次"):
        fair.get_by_role("button", name=part).click()
        text = re.sub(r"[\w.-]*(toy|exact|match|token|Top|min|Intel)[\w.-]*", "", fair.inner_text())
        assert not re.search(r"[A-Za-z]{4,} [A-Za-z]{3,}", text), text


def test_the_words_of_the_view_are_all_used():
    """Every string of the view is named by its script, in full or by the stem that a value completes."""
    code = (ASSETS / "fair.js").read_text(encoding="utf-8")
    stems = {f"fair_{name}" for name in re.findall(r"fair_([a-z_0-9]+)", code)}
    stems |= {f"fair_{name}" for name in re.findall(r'choiceOf\(R, tongue, "(\w+)"', code)} | {
        "fair_temperature",
        "fair_top_k",
        "fair_top_p",
    }
    for key in (key for key in words("en") if key.startswith("fair_")):
        assert any(key == stem or key.startswith(stem.rstrip("_") + "_") for stem in stems), key


def test_an_overlap_survives_the_file(tmp_path):
    """The new number travels as every other one does."""
    rounds, _ = records("lm", max_new=20, temperature=1.0)
    path = support.keep([support.HEADER, *rounds, support.END], tmp_path)
    assert [r["verify"] for r in trace.read(path)[1:-1]] == json.loads(json.dumps([r["verify"] for r in rounds]))
