"""One run as records: a header, one record a round, an end. Command line, page and notebook all start here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace

from engine import metrics, trace
from engine.drafters import Drafter, NoDraft
from engine.engine import Engine
from engine.load import Loaded
from engine.methods import Target, Unavailable, build_drafter
from engine.types import Sampling
from engine.verify import RULES
from engine.weights import LoadError


def encode(loaded: Loaded, prompt: str, raw: bool = False) -> list[int]:
    """Token ids of a prompt: as a user's turn in the chat template, or as it stands where raw or no template exists."""
    tokenizer = loaded.tokenizer
    if raw or not tokenizer.chat_template:
        return tokenizer(prompt).input_ids
    turn = [{"role": "user", "content": prompt}]
    return tokenizer.apply_chat_template(turn, add_generation_prompt=True, return_dict=False)


def end_ids(loaded: Loaded) -> frozenset[int]:
    """Every id that ends a text, from the generation config and the tokenizer; may be empty."""
    eos = loaded.model.generation_config.eos_token_id
    listed = eos if isinstance(eos, list) else [eos]
    return frozenset(i for i in [*listed, loaded.tokenizer.eos_token_id] if i is not None)


def run(
    target: Target,
    prompt: str,
    method: str = "plain",
    sampling: Sampling | None = None,
    *,
    rule: str = "exact",
    draft: str | None = None,
    raw: bool = False,
    ignore_eos: bool = False,
    baseline: int = 0,
    **knobs: int | float | bool | None,
) -> Iterator[dict]:
    """Yields records of the schema in engine/trace.py; while a long prompt is read also {"type": "reading", "done", "total"}.

    knobs: those of the method, see METHODS. baseline: how many tokens of plain decoding to time after the run, on the
    same prompt (0 = none). Closing the iterator stops the engine. Settings that cannot be honoured raise ValueError before
    anything runs.
    """
    loaded = target.loaded
    drafter, draft_model, knobs = build_drafter(target, method, draft, **knobs)
    sampling = sampling or Sampling()
    if not ignore_eos:
        sampling = replace(sampling, stop=sampling.stop | end_ids(loaded))
    ids = encode(loaded, prompt, raw)
    engine = Engine(target.lm, drafter, rule, loaded.vocabulary)
    sequence = engine.submit(ids, sampling)
    head = trace.header(
        method=method,
        knobs=knobs,
        rule=rule,
        lossless=RULES[rule].lossless,
        models={"target": _card(loaded), "draft": draft_model and _card(draft_model)},
        tokenizer_hash=loaded.vocabulary.hash,
        sampling=asdict(sampling) | {"stop": sorted(sampling.stop), "stop_strings": list(sampling.stop_strings)},
        seed=sampling.seed,
        prompt={"text": prompt, "raw": raw, "ids": ids},
        sees=_sees(target, drafter),
    )
    yield head
    rounds: list[dict] = []
    try:
        while not sequence.done:
            for step in engine.step():
                rounds.append(trace.describe(step, loaded.vocabulary, rounds[-1] if rounds else None))
                yield rounds[-1]
            if not rounds:
                yield {"type": "reading", "done": target.lm.cache.length[sequence.row], "total": len(ids)}
    finally:
        engine.cancel(sequence)
    yield {
        "type": "end",
        "done": sequence.done,
        "hash": trace.fingerprint(head, rounds),
        "seconds": metrics.seconds(rounds),
        "decoding": metrics.decoding(rounds),
        "plain": _plain(target, ids, sampling, baseline) if baseline and method != "plain" else None,
    }


def guess_here(
    target: Target,
    ids: list[int],
    prompt_length: int,
    methods: dict[str, dict],
    sampling: Sampling,
    rule: str = "exact",
) -> Iterator[dict]:
    """One round of every method (name -> knobs) behind exactly these tokens, the last of which is the anchor.

    Yields {"method", "knobs", "sees", "prefix": hash of the tokens that were in the engine, "length": how many, "round": a
    record as in engine/trace.py}, or {"method", "off": why it cannot run}. With a run's own settings, and its tokens before one
    of its rounds, its method repeats that round.
    """
    sampling = replace(sampling, stop=sampling.stop | end_ids(target.loaded))
    for method, wish in methods.items():
        try:
            drafter, _, knobs = build_drafter(target, method, **wish)
        except (Unavailable, LoadError) as error:
            yield {"method": method, "off": str(error)}
            continue
        engine = Engine(target.lm, drafter, rule, target.loaded.vocabulary)
        sequence = engine.submit(ids, sampling, min(prompt_length, len(ids) - 1), resume=True)
        try:
            while not (steps := engine.step()):
                pass
        finally:
            engine.cancel(sequence)
        prefix = sequence.tokens[: steps[0].start]
        yield {
            "method": method, "knobs": knobs, "sees": _sees(target, drafter), "prefix": trace.digest(prefix),
            "length": len(prefix), "round": trace.describe(steps[0], target.loaded.vocabulary),
        }  # fmt: skip


def _sees(target: Target, drafter: Drafter) -> dict:
    return {**drafter.sees, "taps": list(drafter.taps), "layers": len(target.lm.layers)}


def _plain(target: Target, ids: list[int], sampling: Sampling, tokens: int) -> dict:
    """Time plain decoding of the same prompt through the same loop."""
    engine = Engine(target.lm, NoDraft(), "exact", target.loaded.vocabulary)
    sampling = replace(sampling, max_new=tokens + 1, stop=frozenset(), stop_strings=())
    steps = list(engine.generate(ids, sampling))[1:]
    spent = sum(sum(step.seconds.values()) for step in steps)
    return {"tokens": len(steps), "seconds": spent, "tokens_per_second": metrics.ratio(len(steps), spent)}


def _card(loaded: Loaded) -> dict:
    return {
        "name": loaded.name,
        "weights": loaded.weights,
        "hash": loaded.hash,
        "parameters": sum(p.numel() for p in loaded.model.parameters()),
        "dtype": loaded.dtype,
        "device": loaded.device,
    }
