"""The loop: greedy equality with an uncached oracle for every method, stopping, batches, pausing, broken models."""

import copy

import pytest
import torch
from toys import DEVICE, DRAFTERS, PROMPT, TreeDrafter, argmax_oracle, run, run_all, tiny
from toys import engine as build

from engine import LM, Engine, Sampling
from engine.drafters import NoDraft, chain
from engine.drafters.lm import ModelDrafter
from engine.engine import BrokenLogits
from engine.verify import RULES

METHODS = list(DRAFTERS)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", METHODS)
def test_greedy_equals_the_uncached_oracle(name, rule):
    """At temperature 0 every rule, the lossy ones included, keeps the argmax and nothing else."""
    out, steps, e = run(name, rule=rule, max_new=40)
    assert out == argmax_oracle(40)
    assert sum(len(s.tokens) for s in steps) == 40


def test_plain_equals_transformers_generate():
    out = tiny().generate(torch.tensor([PROMPT], device=DEVICE), max_new_tokens=20, do_sample=False, pad_token_id=0)
    assert run("plain", max_new=20)[0] == out[0, len(PROMPT) :].tolist()


@pytest.mark.parametrize("prompt", [[10], [3, 3], [1, 2, 3] * 40])
@pytest.mark.parametrize("name", METHODS)
def test_e10_e28_prompts_of_one_two_and_many_repeated_tokens(name, prompt):
    assert run(name, prompt, max_new=20)[0] == argmax_oracle(20, prompt)


@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 255, 256, 257])
def test_e26_prompts_cut_in_chunks_give_the_same_first_token(length, monkeypatch):
    monkeypatch.setattr("engine.engine.PREFILL", 64)
    model = lambda: tiny(max_position_embeddings=512)  # noqa: E731
    prompt = [(7 * i) % 11 for i in range(length)]
    for name in ("plain", "lm", "dspark"):
        e = build(name, model=model())
        steps = list(e.generate(prompt, Sampling(max_new=4)))
        assert steps[-1].sequence.output == argmax_oracle(4, prompt, model())


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_drafter_that_is_the_target_is_always_accepted(temperature):
    for seed in range(4):
        _, steps, _ = run("self", max_new=25, temperature=temperature, seed=seed)
        trials = [t for s in steps for t in s.verdict.trials]
        assert trials and all(t.accepted for t in trials)
        assert [len(s.tokens) for s in steps] == [1, 5, 5, 5, 5, 4]


def test_a_drafter_that_is_always_wrong_costs_rounds_but_no_token():
    class Wrong:
        taps, passes = (), 0

        def observe(self, sequences, features):
            pass

        def propose(self, sequences):
            right = [argmax_oracle(1, s.tokens)[0] for s in sequences]
            return [chain([(r + 1) % 11] * min(3, s.room), DEVICE) for r, s in zip(right, sequences, strict=True)]

    steps = list(Engine(LM(tiny()), Wrong()).generate(PROMPT, Sampling(max_new=12)))
    assert [t for s in steps for t in s.tokens] == argmax_oracle(12) and len(steps) == 12


@pytest.mark.parametrize("name", ["ngram", "lm", "self", "tree", "dflash", "dspark"])
@pytest.mark.parametrize("max_new", range(1, 8))
def test_e61_the_budget_is_met_exactly_and_nothing_is_drafted_beyond_it(name, max_new):
    out, steps, _ = run(name, max_new=max_new)
    assert out == argmax_oracle(max_new) and steps[-1].done == "length"
    for s in steps:
        assert s.start - len(PROMPT) + len(s.verdict.path) + 1 <= max_new or not len(s.proposal)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("at", range(7))
def test_a_stop_token_at_every_place_of_a_block_ends_the_text_there(name, at):
    oracle = argmax_oracle(20)
    stop = oracle[at]
    out, steps, _ = run(name, max_new=20, stop=frozenset([stop]))
    assert out == oracle[: oracle.index(stop) + 1] and steps[-1].done == "stop"
    assert all(trial.node in range(len(s.proposal)) for s in steps for trial in s.verdict.trials)


@pytest.mark.parametrize("name", METHODS)
def test_e03_without_any_stop_token_the_length_decides(name):
    out, steps, _ = run(name, [5, 6, 7, 8, 9, 10, 4, 7, 8], max_new=15)
    assert len(out) == 15 and steps[-1].done == "length"


class Bytes:
    """A vocabulary whose tokens are the letters a, b, c, ..."""

    size = 11
    bytes = [bytes([97 + i]) for i in range(11)]


@pytest.mark.parametrize("name", METHODS)
def test_e07_stop_strings_inside_a_block_over_two_rounds_and_not_in_the_prompt(name):
    oracle = "".join(chr(97 + t) for t in argmax_oracle(20))
    prompt = "".join(chr(97 + t) for t in PROMPT)
    for start in range(6):
        for size in (2, 3):
            stop = oracle[start : start + size]
            e = build(name, vocabulary=Bytes())
            steps = list(e.generate(PROMPT, Sampling(max_new=20, stop_strings=("zz", stop))))
            text = "".join(chr(97 + t) for t in steps[-1].sequence.output)
            assert text == oracle[: oracle.index(stop) + size] and steps[-1].done == "stop_string"
    across = prompt[-1] + oracle[0]
    if across not in oracle:
        e = build(name, vocabulary=Bytes())
        assert len(list(e.generate(PROMPT, Sampling(max_new=20, stop_strings=(across,))))[-1].sequence.output) == 20


def test_e39_stop_strings_without_a_vocabulary_are_refused():
    with pytest.raises(ValueError, match="vocabulary"):
        build("plain").submit(PROMPT, Sampling(stop_strings=("x",)))


@pytest.mark.parametrize("name", METHODS)
def test_e52_the_end_of_the_targets_context(name):
    model = lambda: tiny(max_position_embeddings=64)  # noqa: E731
    prompt = [(3 * i) % 11 for i in range(60)]
    e = build(name, k=8, model=model())
    steps = list(e.generate(prompt, Sampling(max_new=20)))
    assert steps[-1].sequence.output == argmax_oracle(4, prompt, model()) and steps[-1].done == "length"
    for length in (64, 65):
        with pytest.raises(ValueError, match="at most 64"):
            e.submit([1] * length, Sampling(max_new=20))


def test_e51_a_draft_model_with_a_shorter_context_stops_drafting_and_says_so():
    draft = ModelDrafter(LM(tiny(1, max_position_embeddings=64)), 4)
    for length in (60, 100):
        prompt = [(3 * i) % 11 for i in range(length)]
        steps = list(Engine(LM(tiny()), draft).generate(prompt, Sampling(max_new=50)))
        assert steps[-1].sequence.output == argmax_oracle(50, prompt)
        silent = [s for s in steps[1:-1] if not len(s.proposal)]
        assert silent and {s.proposal.note for s in silent} == {"draft_context"}


@pytest.mark.parametrize("name", METHODS)
def test_the_cache_equals_a_fresh_forward_every_round(name):
    model = tiny()
    e = build(name)
    for step in e.generate(PROMPT, Sampling(temperature=0.9, max_new=20, seed=5)):
        with torch.inference_mode():
            fresh = model(torch.tensor([step.sequence.tokens[: step.start]], device=DEVICE)).logits[0, -1]
        torch.testing.assert_close(step.logits[0], fresh)


@pytest.mark.parametrize("rule", ["exact", "match"])
@pytest.mark.parametrize("name", METHODS)
def test_five_together_equal_each_alone(name, rule):
    prompts = [[1, 2, 3], [4, 5, 6, 7, 8, 9], [2], [3, 3, 3, 3], [5, 1]]
    requests = [(p, Sampling(temperature=0.8, max_new=12, seed=i)) for i, p in enumerate(prompts)]
    alone = [run_all(build(name, rule=rule), [request])[0] for request in requests]
    assert run_all(build(name, rows=5, rule=rule), requests) == alone
    assert run_all(build(name, rows=2, rule=rule), requests) == alone  # three wait, newcomers take freed rows


def test_e58_the_same_prompt_twice_and_two_seeds_at_once():
    same = run_all(build("lm", rows=2), [(PROMPT, Sampling(max_new=20))] * 2)
    assert same[0] == same[1] == argmax_oracle(20)


@pytest.mark.parametrize("name", METHODS)
def test_e22_a_seed_repeats_a_run_whatever_ran_before(name):
    settings = dict(temperature=2.0, seed=42, max_new=10)
    e = build(name)
    first = run_all(e, [(PROMPT, Sampling(**settings))])
    run_all(e, [([4, 4], Sampling(temperature=1.0, seed=1, max_new=7, stop=frozenset([3])))])
    state = torch.random.get_rng_state()
    assert (
        run_all(e, [(PROMPT, Sampling(**settings))]) == first == run_all(build(name), [(PROMPT, Sampling(**settings))])
    )
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize("name", ["ngram", "lm", "tree", "dflash", "dspark short"])
def test_match_writes_what_plain_decoding_writes_with_the_same_seed(name):
    for seed in range(3):
        settings = dict(temperature=1.0, top_p=0.9, seed=seed, max_new=24)
        assert run(name, rule="match", **settings)[0] == run("plain", **settings)[0]


@pytest.mark.parametrize("name", METHODS)
def test_a_paused_run_goes_on_as_if_it_had_not_stopped(name):
    sampling = Sampling(temperature=1.0, max_new=24, seed=3)
    whole = [s.tokens for s in build(name).generate(PROMPT, sampling)]
    for rounds in (1, 3):
        paused = build(name)
        steps = paused.generate(PROMPT, sampling)
        tokens = PROMPT + [t for _ in range(rounds) for t in next(steps).tokens]
        steps.close()
        resumed = build(name)  # another engine: nothing but the tokens survives
        sequence = resumed.submit(tokens, sampling, prompt_length=len(PROMPT), resume=True)
        rest = []
        while not sequence.done:
            rest += [s.tokens for s in resumed.step()]
        assert rest == whole[rounds:]


def test_closing_the_iterator_frees_the_row_and_others_do_not_notice():
    e = build("lm", rows=2)
    other = e.submit(PROMPT, Sampling(max_new=20))
    steps = e.generate([4, 5], Sampling(max_new=500))
    next(steps)
    steps.close()
    assert len(e.running) == 1 and len(e.target.cache._free) == 1
    while not other.done:
        e.step()
    assert other.output == argmax_oracle(20)


def test_a_long_prompt_can_be_cancelled_between_its_chunks(monkeypatch):
    monkeypatch.setattr("engine.engine.PREFILL", 16)
    e = build("plain")
    sequence = e.submit([1] * 100, Sampling())
    assert e.step() == [] and e.target.cache.length[sequence.row] == 16
    e.cancel(sequence)
    assert sequence.done == "cancelled" and not e.reading and e.step() == []


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
@pytest.mark.parametrize("who", ["target", "drafter"])
def test_e21_e50_broken_logits_are_named_not_sampled(who, poison):
    e = build("lm")
    lm = e.target if who == "target" else e.drafter.lm
    honest = lm.forward

    def poisoned(rows, tokens, *args, **kwargs):
        out = honest(rows, tokens, *args, **kwargs)
        if who == "drafter" or len(tokens[0]) == 5:
            out.logits[0, -1, 3] = poison
        return out

    lm.forward = poisoned
    with pytest.raises(BrokenLogits, match=f"the {who}'s logits.*row.*position"):
        list(e.generate(PROMPT, Sampling(temperature=1.0, max_new=20)))


def test_e36_the_first_round_drafts_k_and_no_config_changes():
    draft = LM(tiny(1))
    e = Engine(LM(tiny()), ModelDrafter(draft, 5))
    before = copy.deepcopy([e.target.model.config.to_dict(), draft.model.config.to_dict()])
    for k in (5, 5, 2):
        e.drafter = ModelDrafter(draft, k)
        steps = list(e.generate(PROMPT, Sampling(max_new=20)))
        assert len(steps[1].proposal) == k
    assert before == [e.target.model.config.to_dict(), draft.model.config.to_dict()]


@pytest.mark.parametrize("name", METHODS)
def test_e63_every_round_commits_and_p11_every_round_is_one_forward(name):
    e = build(name)
    before, steps = e.target.passes, list(e.generate(PROMPT, Sampling(temperature=1.0, max_new=30)))
    assert all(s.tokens for s in steps) and e.target.passes - before == len(steps)


def test_a2_the_drafted_tokens_really_go_through_the_target():
    e, seen = build("lm"), []
    honest = e.target.forward
    e.target.forward = lambda rows, tokens, *a, **kw: (seen.append(tokens[0].tolist()), honest(rows, tokens, *a, **kw))[
        1
    ]
    for step in e.generate(PROMPT, Sampling(max_new=10)):
        if len(step.proposal):
            assert seen[-1][1:] == step.proposal.tokens.tolist()


def test_e38_padded_ids_cannot_be_written_however_hot():
    class Ten:
        size = 10

    for name in ("plain", "lm", "self"):
        e = build(name, vocabulary=Ten())
        if isinstance(e.drafter, ModelDrafter):
            e.drafter = ModelDrafter(e.drafter.lm, 4, vocabulary=10)
        for seed in range(20):
            assert 10 not in run_all(e, [(PROMPT, Sampling(temperature=100.0, max_new=20, seed=seed))])[0]


@pytest.mark.parametrize("draft_vocab", [8, 16])
def test_e38_draft_models_with_other_padding_are_aligned(draft_vocab):
    draft = ModelDrafter(LM(tiny(1, draft_vocab)), 3, vocabulary=8)

    class Eight:
        size = 8

    prompt = [1, 2, 3]
    e = Engine(LM(tiny(0, 11)), draft, vocabulary=Eight())
    steps = list(e.generate(prompt, Sampling(temperature=1.0, max_new=10)))
    assert all(p.q.shape[-1] == 8 for p in (s.proposal for s in steps) if len(p))


def test_e64_unknown_rules_are_refused():
    with pytest.raises(ValueError, match="exact, match"):
        Engine(LM(tiny()), NoDraft(), "best")


def test_an_empty_prompt_is_refused():
    with pytest.raises(ValueError, match="no tokens"):
        build("plain").submit([], Sampling())


def test_a_tree_that_skips_siblings_is_used():
    """Guards the tests above: the tree drafter's accepted paths really need compaction."""
    _, steps, _ = run("tree", max_new=40)
    assert any(s.verdict.path != list(range(len(s.verdict.path))) for s in steps)
    assert isinstance(build("tree").drafter, TreeDrafter)
