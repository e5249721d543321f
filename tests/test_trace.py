"""The trace: what a record says is what happened, and every number can be counted again from it."""

import json

import pytest
import torch
from toys import DEVICE, PROMPT, tiny
from toys import engine as build

from engine import LM, Engine, Sampling, metrics, trace
from engine.drafters.lm import ModelDrafter
from engine.drafters.ngram import NgramDrafter
from engine.sampling import warp
from engine.types import Step


class Letters:
    """Tokens are letters, one of them half a character."""

    size = 11
    bytes = [bytes([97 + i]) for i in range(10)] + [b"\xf0\x9f"]

    def piece(self, i):
        return list(self.bytes[i]) if i == 10 else self.bytes[i].decode()


def records(name="lm", rule="exact", k=4, **sampling):
    rounds, steps = [], []
    for step in build(name, rule=rule, k=k).generate(PROMPT, Sampling(**sampling)):
        steps.append(step)
        rounds.append(trace.describe(step, Letters(), rounds[-1] if rounds else None))
    return rounds, steps


CASES = [("plain", 0.0), ("ngram", 0.0), ("lm", 0.0), ("lm", 1.0), ("self", 1.0), ("tree", 1.0), ("siblings", 1.0)]
CASES += [("dflash", 1.0), ("dflash sampled", 1.0), ("dspark", 0.0), ("dspark short", 1.0)]


@pytest.mark.parametrize("name,temperature", CASES)
def test_a4_a5_a6_every_node_has_one_fate_and_every_round_one_maker(name, temperature):
    rounds, steps = records(name, max_new=30, temperature=temperature)
    for record, step in zip(rounds, steps, strict=True):
        fates = [v["verdict"] for v in record["verify"]]
        assert len(record["draft"]) == len(fates) == len(step.proposal)
        assert set(fates) <= {"kept", "rejected", "not_reached"}
        makers = [e["maker"] for e in record["emit"]]
        assert makers.count("draft") == fates.count("kept")
        own = [m for m in makers if m != "draft"]
        assert own == [("plain" if not fates else "correction" if _last_was_refused(step) else "bonus")]
        assert [e["token_id"] for e in record["emit"]] == step.tokens
    assert [e["token_id"] for r in rounds for e in r["emit"]] == steps[-1].sequence.output


def _last_was_refused(step: Step):
    return not step.verdict.trials[-1].accepted


@pytest.mark.parametrize("name,temperature", CASES)
def test_e61_the_running_counts_can_be_recounted(name, temperature):
    rounds, _ = records(name, max_new=30, temperature=temperature)
    fates = [v["verdict"] for r in rounds for v in r["verify"]]
    counts = rounds[-1]["counts"]
    assert counts["rounds"] == counts["passes"] == len(rounds)
    assert counts["tokens"] == 30 == sum(len(r["emit"]) for r in rounds)
    assert counts["drafted"] == len(fates)
    assert counts["tested"] == fates.count("kept") + fates.count("rejected")
    assert counts["accepted"] == fates.count("kept")
    for i in range(len(counts["offered"])):
        assert counts["offered"][i] == sum(any(d["depth"] == i + 1 for d in r["draft"]) for r in rounds)
        assert counts["kept"][i] == _rounds_with(rounds, i + 1, {"kept"}) if i < len(counts["kept"]) else True
        if i < len(counts["reached"]):
            assert counts["reached"][i] == _rounds_with(rounds, i + 1, {"kept", "rejected"})


def _rounds_with(rounds, depth, verdicts):
    return sum(
        any(d["depth"] == depth and v["verdict"] in verdicts for d, v in zip(r["draft"], r["verify"], strict=True))
        for r in rounds
    )


def test_e60_a_later_coincidence_is_not_reached_and_not_accepted():
    matches = [1, 0, 1, 1]
    verdicts = [(i + 1, v) for i, v in enumerate(("kept", "rejected", "not_reached", "not_reached"))]
    counts = metrics.count(metrics.EMPTY, verdicts, 2)
    assert counts["accepted"] == matches.index(0) == 1 and counts["tested"] == 2
    assert counts["kept"] == [1] and counts["reached"] == [1, 1] and counts["offered"] == [1, 1, 1, 1]


def test_e61_nothing_is_divided_by_zero():
    assert metrics.ratio(0, 0) is None
    assert metrics.decoding([])["tokens_per_second"] is None


@pytest.mark.parametrize("name,temperature", CASES)
def test_e62_shown_probabilities_are_the_targets_and_sum_to_one(name, temperature):
    rounds, steps = records(name, max_new=20, temperature=temperature)
    model = tiny()
    for record, step in zip(rounds, steps, strict=True):
        for entry in [*record["draft"], *record["verify"], *([record["final"]] if record["final"] else [])]:
            for key in [key[:-4] for key in entry if key.endswith("_top")]:
                assert sum(p for _, p in entry[f"{key}_top"]) + entry[f"{key}_rest"] == pytest.approx(1, abs=1e-4)
                assert [p for _, p in entry[f"{key}_top"]] == sorted((p for _, p in entry[f"{key}_top"]), reverse=True)
        with torch.inference_mode():
            logits = model(torch.tensor([step.sequence.tokens[: step.start]], device=DEVICE)).logits[0, -1].cpu()
        for v, d in zip(record["verify"], record["draft"], strict=True):
            if d["parent"] is None and d["slot"] == 0:
                own, p = logits.softmax(-1), warp(logits[None], step.sequence.sampling)[0]
                assert v["p_own_tok"] == pytest.approx(float(own[d["token_id"]]), abs=1e-5)
                assert v["p_tok"] == pytest.approx(float(p[d["token_id"]]), abs=1e-5)
                assert v["p_rank"] == int((logits > logits[d["token_id"]]).sum()) + 1
                assert v["p_entropy"] == pytest.approx(float(-(own * own.log()).sum()), abs=1e-4)


def test_c1_c2_the_chance_is_min_1_p_over_q_and_u_decides():
    rounds, _ = records("lm", max_new=60, temperature=1.0, seed=3)
    tested = [(d, v) for r in rounds for d, v in zip(r["draft"], r["verify"], strict=True) if v["u"] is not None]
    assert {v["verdict"] for _, v in tested} == {"kept", "rejected"}
    for d, v in tested:
        assert v["ratio"] == pytest.approx(min(1, v["p_tok"] / d["q_tok"]), rel=1e-4)
        assert (v["u"] < v["ratio"]) == (v["verdict"] == "kept")


def test_a_correction_shows_the_residual_it_was_drawn_from():
    rounds, steps = records("lm", max_new=60, temperature=1.0, seed=3)
    for record, step in zip(rounds, steps, strict=True):
        corrected = record["emit"][-1]["maker"] == "correction"
        assert ("residual_top" in record["final"]) == corrected
        if corrected:
            row, node = step.verdict.path[-1] + 1 if step.verdict.path else 0, step.verdict.trials[-1].node
            left = (step.p[row] - step.proposal.q[node]).clamp_min(0)
            expected = left / left.sum()
            assert dict(map(tuple, record["final"]["residual_top"]))[int(expected.argmax())] == pytest.approx(
                float(expected.max()), abs=1e-4
            )


def test_a10_phases_add_up_to_the_round():
    rounds, steps = records("lm", max_new=20)
    clock = 0.0
    for record, step in zip(rounds, steps, strict=True):
        total = sum(record[f"t_{phase}"] for phase in ("draft", "target", "verify", "other"))
        assert total == pytest.approx(1000 * sum(step.seconds.values()), abs=1e-3) and min(step.seconds.values()) >= 0
        assert record["t0"] == pytest.approx(clock, abs=1e-2)
        clock += total


def test_texts_hold_every_id_and_parts_of_characters_are_bytes():
    rounds, _ = records("lm", max_new=40, temperature=1.0)
    for record in rounds:
        assert trace._mentioned(record) == set(map(int, record["texts"]))
        assert record["texts"].get("10", [240, 159]) == [240, 159] and record["texts"].get("0", "a") == "a"
        json.dumps(record)


def test_p2_a_file_gives_back_the_same_records_and_names_a_bad_line(tmp_path):
    rounds, _ = records("ngram", max_new=20)
    path = tmp_path / "run.jsonl"
    head = trace.header(method="ngram", unknown={"kept": 1})
    told = [head, {"type": "reading", "done": 1, "total": 2}, *rounds, {"type": "end"}]
    assert list(trace.write(path, told)) == told
    assert trace.read(path) == [head, *rounds, {"type": "end"}]
    for bad, words in (
        ("", "empty"),
        ('{"type": "round"}\n', "header"),
        (json.dumps(head) + "\n{", "line 2"),
        ("[1]", "line 1"),
    ):
        path.write_text(bad)
        with pytest.raises(ValueError, match=words):
            trace.read(path)


def test_a12_the_fingerprint_depends_on_decisions_not_on_times():
    head = dict(method="lm", knobs={}, rule="exact", sampling={}, tokenizer_hash="", prompt={"ids": PROMPT})
    one, two = (records("lm", max_new=20, temperature=1.0, seed=1)[0] for _ in range(2))
    other = records("lm", max_new=20, temperature=1.0, seed=2)[0]
    assert trace.fingerprint(head, one) == trace.fingerprint(head, two) != trace.fingerprint(head, other)


def test_n_gram_records_name_their_source_and_silent_rounds_their_reason():
    e = Engine(LM(tiny()), NgramDrafter(4, 2, 1, DEVICE))
    rounds = []
    for step in e.generate([1, 2, 3, 4], Sampling(max_new=30)):
        rounds.append(trace.describe(step, Letters(), rounds[-1] if rounds else None))
    assert {r["note"] for r in rounds[1:] if not r["draft"]} <= {"no_match", "last_token"}
    for d in (d for r in rounds for d in r["draft"]):
        start, stop = d["source"]
        assert 0 <= start < stop and d["q_tok"] == 1.0 and "q_own_top" not in d


def test_a_drafter_that_emits_a_stop_token_ends_without_a_final_draw():
    e = Engine(LM(tiny()), ModelDrafter(LM(tiny()), 4))
    plain = list(e.generate(PROMPT, Sampling(max_new=10)))
    stop = plain[1].tokens[1]
    steps = list(e.generate(PROMPT, Sampling(max_new=10, stop=frozenset([stop]))))
    record = trace.describe(steps[-1], Letters())
    if steps[-1].tokens[-1] in [int(t) for t in steps[-1].proposal.tokens]:
        assert record["final"] is None and {e["maker"] for e in record["emit"]} == {"draft"}
        assert [v["verdict"] for v in record["verify"]][len(steps[-1].tokens) :] == ["not_reached"] * (
            len(record["verify"]) - len(steps[-1].tokens)
        )


def test_a3_d8_a_block_is_one_pass_and_its_heads_are_told():
    rounds, steps = records("dspark", max_new=40, temperature=1.0)
    assert any(len(r["draft"]) == 4 for r in rounds)
    for record, step in zip(rounds, steps, strict=True):
        for i, d in enumerate(record["draft"]):
            before, after = step.proposal.base[i], step.proposal.logits[i]
            assert d["pass"] == 0 and d["confidence"] == pytest.approx(float(step.proposal.confidence[i]), rel=1e-5)
            assert d["bias"] == pytest.approx(float((after - before)[d["token_id"]]), rel=1e-4, abs=1e-5)
            best, chance = d["q_base_top"][0]
            assert best == int(before.argmax()) and chance == pytest.approx(float(before.softmax(-1).max()), rel=1e-5)
            assert {best} <= {int(token) for token in record["texts"]}


def test_an_argmax_draft_has_odds_of_one_and_an_opinion_beside_them():
    rounds, _ = records("dflash", max_new=20, temperature=1.0)
    for d in (d for r in rounds for d in r["draft"]):
        assert d["q_tok"] == 1 and d["q_top"] == [[d["token_id"], 1.0]] and d["q_rank"] == 1
        assert d["q_own_tok"] == d["q_own_top"][0][1] == pytest.approx(d["confidence"], rel=1e-4) and d["q_own_tok"] < 1
        assert "q_base_top" not in d and "bias" not in d


def test_a_round_without_a_draft_says_that_the_drafter_was_unsure():
    rounds, _ = records("dspark short", max_new=40, temperature=1.0)
    assert "low_confidence" in {r["note"] for r in rounds if not r["draft"]}
