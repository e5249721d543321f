"""The default target itself: identical ids for every method and for transformers.generate, in float32 at temperature 0.

SPECSCOPE_FULL=1 runs all prompts at 96 tokens (the first 20 questions of Spec-Bench where they are at hand); otherwise a few.
"""

import json
import os
from pathlib import Path

import pytest
import torch

from engine import Engine, Sampling
from engine.methods import build_drafter
from engine.run import encode

FULL = os.environ.get("SPECSCOPE_FULL") == "1"
NEW = 96 if FULL else 24
QUESTIONS = Path(__file__).parents[2] / "shared" / "data" / "spec_bench_half.jsonl"
OWN = {
    "table": "Copy this table:\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n| 5 | 6 |",
    "chinese": "请用中文介绍一下北京的故宫。",
    "emoji": "Write a line of emoji: 🔥👩‍👩‍👧 and explain it.",
    "one token": "a",
    "empty line": "\n",
    "long": "The quick brown fox jumps over the lazy dog near the river bank. " * 214,
}
DRAFTED = {  # every method that guesses, with the weights that travel with the program
    "ngram": {}, "lm": {}, "dflash": {}, "dspark": {}, "dspark, threshold": {"threshold": 0.5},
}  # fmt: skip
pytestmark = pytest.mark.weights


def prompts():
    chosen = dict(OWN)
    if FULL and QUESTIONS.exists():
        lines = QUESTIONS.read_text(encoding="utf-8").splitlines()[:20]
        chosen |= {f"question {i}": json.loads(line)["turns"][0] for i, line in enumerate(lines)}
    return chosen


def ours(target, method, ids, rule="exact", **sampling):
    drafter, _, _ = build_drafter(target, method.split(",")[0], **DRAFTED.get(method, {}))
    engine = Engine(target.lm, drafter, rule, target.loaded.vocabulary)
    return list(engine.generate(ids, Sampling(**sampling)))[-1].sequence.output


def generate(target, ids, new):
    model = target.loaded.model
    model.set_attn_implementation("sdpa")
    try:
        tokens = torch.tensor([ids], device=model.device)
        mask = torch.ones_like(tokens)
        out = model.generate(tokens, attention_mask=mask, do_sample=False, max_new_tokens=new, min_new_tokens=new)
    finally:
        model.set_attn_implementation("slab")
    return out[0, len(ids) :].tolist()


@pytest.mark.parametrize("name", prompts())
def test_e24_e28_ids_are_identical_for_every_method_and_transformers(target, name):
    raw = name == "one token"
    ids = encode(target.loaded, prompts()[name], raw)
    if name == "one token":
        assert len(ids) == 1
    if name == "long":
        assert len(ids) > 3000
    expected = ours(target, "plain", ids, max_new=NEW)
    assert len(expected) == NEW
    for method in DRAFTED:
        assert ours(target, method, ids, max_new=NEW) == expected, method
    stock = generate(target, ids, NEW)
    eos = target.loaded.tokenizer.eos_token_id  # min_new_tokens forbids it to generate; compare up to there
    end = expected.index(eos) if eos in expected else NEW
    assert stock[:end] == expected[:end]


def test_e24_in_bfloat16_every_token_is_plains_choice_or_a_near_tie():
    """Teacher-forced: each committed token is the argmax of a one-row forward over the same prefix, or within a small gap."""
    from engine.load import load_model
    from engine.methods import Target

    target = Target(load_model(dtype="bfloat16"))
    gaps = []
    for name in ("table", "chinese"):
        ids = encode(target.loaded, OWN[name])
        for method in ("plain", *DRAFTED):
            out = ours(target, method, ids, max_new=NEW)
            row = target.lm.cache.acquire()
            target.lm.forward([row], [torch.tensor(ids, device=target.lm.device)], read="none")
            target.lm.cache.commit(row, list(range(len(ids) - 1)))
            for before, token in zip([ids[-1], *out], out, strict=False):
                logits = (
                    target.lm.forward([row], [torch.tensor([before], device=target.lm.device)]).logits[0, 0].float()
                )
                target.lm.cache.commit(row, [0])
                gaps.append(float(logits.max() - logits[token]))
            target.lm.cache.release(row)
    assert max(gaps) < 0.5 and sum(gap > 0 for gap in gaps) <= 0.05 * len(gaps)


def test_d1_drafts_are_accepted_as_their_weights_deserve(target):
    """Weights read wrongly raise no error, they only guess badly (1.0x tokens per pass): on a plain chat answer each drafter
    must reach what such a one cannot."""
    ids = encode(target.loaded, "Explain what photosynthesis is.")
    for method in ("lm", "dflash", "dspark"):
        drafter, _, _ = build_drafter(target, method)
        steps = list(Engine(target.lm, drafter).generate(ids, Sampling(max_new=48)))[1:]
        assert sum(len(s.tokens) for s in steps) / len(steps) > 1.15, method


def test_match_at_temperature_one_writes_plains_text(target):
    ids = encode(target.loaded, "Tell me a short story about a lighthouse.")
    settings = dict(max_new=NEW, temperature=1.0, top_p=0.95, seed=5)
    assert ours(target, "lm", ids, "match", **settings) == ours(target, "plain", ids, **settings)


def test_numbers_split_as_the_model_learned_them(target):
    assert len(encode(target.loaded, "2026", raw=True)) == 4
