"""Measure this machine: every comparison is paired, run by run, in one process with the same model, dtype and threads.

    python -m engine.bench

The last line is one JSON document. Ratios above 1 mean faster than what stands behind the slash.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from engine import trace
from engine.drafters.ngram import lookup
from engine.engine import Engine
from engine.load import load_model
from engine.methods import Target, build_drafter
from engine.run import encode, run
from engine.types import Sampling

Prompt = tuple[str, bool]  # the text, and whether it is continued as it stands instead of answered
CHAT = "Explain in a few sentences why the sky is blue during the day and red in the evening.", False
TABLE = """| city | country | river |
|---|---|---|
| Vienna | Austria | Danube |
| Budapest | Hungary | Danube |
| Cologne | Germany | Rhine |
| Prague | Czechia | Vltava |
| Lyon | France | Rhone |
| Seville | Spain | Guadalquivir |
"""
COPY = f"{TABLE}\nThe same table again:\n\n" + TABLE[: TABLE.index(" Austria")], True


def paired(sides: dict[str, Callable[[], float]], pairs: int) -> dict[str, list[float]]:
    """Seconds of each side, measured in turn after one round that does not count; the order flips every time."""
    for side in sides.values():
        side()
    seconds = {name: [] for name in sides}
    for i in range(pairs):
        for name in list(sides) if i % 2 == 0 else list(sides)[::-1]:
            seconds[name].append(sides[name]())
    return seconds


def ratio(seconds: dict[str, list[float]], base: str, other: str) -> dict[str, float]:
    """How many times faster `other` is than `base`: median over the pairs, with the smallest and the largest."""
    each = [b / o for b, o in zip(seconds[base], seconds[other], strict=True)]
    return {"median": statistics.median(each), "min": min(each), "max": max(each)}


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


class Bench:
    """The measurements, all on one loaded target."""

    def __init__(self, target: Target, pairs: int, tokens: int):
        self.target, self.pairs, self.tokens = target, pairs, tokens
        self.sampling = Sampling(max_new=tokens)  # greedy, no stop token: both sides write the same number of tokens

    def ours(self, method: str, prompt: Prompt, k: int | None = None) -> list:
        """Steps of one run, without a trace."""
        drafter, _, _ = build_drafter(self.target, method, k=k)
        engine = Engine(self.target.lm, drafter, vocabulary=self.target.loaded.vocabulary)
        return list(engine.generate(encode(self.target.loaded, *prompt), self.sampling))

    def stock(self, prompt: Prompt) -> float:
        """Seconds of transformers' own generate on the same weights, with its own attention and cache."""
        model = self.target.loaded.model
        model.set_attn_implementation("sdpa")
        ids = torch.tensor([encode(self.target.loaded, *prompt)], device=model.device)
        settings = {"do_sample": False, "max_new_tokens": self.tokens, "min_new_tokens": self.tokens, "pad_token_id": 0}
        seconds = timed(lambda: model.generate(ids, attention_mask=torch.ones_like(ids), **settings))
        model.set_attn_implementation("slab")
        return seconds

    def plain_against_transformers(self) -> dict:
        sides = {"generate": lambda: self.stock(CHAT), "plain": lambda: timed(lambda: self.ours("plain", CHAT))}
        seconds = paired(sides, self.pairs)
        return {"plain / transformers.generate": ratio(seconds, "generate", "plain")} | self._speeds(seconds)

    def method_against_plain(self, method: str, prompt: Prompt, k: int | None = None) -> dict:
        sides = {
            "plain": lambda: timed(lambda: self.ours("plain", prompt)),
            method: lambda: timed(lambda: self.ours(method, prompt, k)),
        }
        seconds = paired(sides, self.pairs)
        steps = self.ours(method, prompt, k)
        return {
            f"{method} / plain": ratio(seconds, "plain", method),
            "tokens per pass": sum(len(s.tokens) for s in steps) / len(steps),
        } | self._speeds(seconds)

    def _speeds(self, seconds: dict[str, list[float]]) -> dict[str, float]:
        return {f"{name} tok/s": self.tokens / statistics.median(each) for name, each in seconds.items()}

    def overhead(self, method: str, prompt: Prompt) -> float:
        """Share of a run's wall time that is spent outside target and draft passes."""
        shares = []
        for _ in range(self.pairs):
            began = time.perf_counter()
            steps = self.ours(method, prompt)
            wall = time.perf_counter() - began
            inside = sum(s.seconds["target"] + s.seconds["draft"] for s in steps)
            shares.append((wall - inside) / wall)
        return statistics.median(shares)

    def trace_cost(self, method: str, prompt: Prompt) -> float:
        """Wall time of a run that writes a trace file over one that does not, minus 1."""
        with tempfile.TemporaryDirectory() as folder:

            def traced():
                records = run(self.target, prompt[0], method, self.sampling, raw=prompt[1], ignore_eos=True)
                list(trace.write(Path(folder) / "run.jsonl", records))

            seconds = paired(
                {"bare": lambda: timed(lambda: self.ours(method, prompt)), "traced": lambda: timed(traced)}, self.pairs
            )
        return 1 / ratio(seconds, "bare", "traced")["median"] - 1

    def ngram_search(self) -> float:
        """Milliseconds of one n-gram search over 4,000 tokens."""
        tokens = [(i * i) % 97 for i in range(4000)]
        return 1000 * statistics.median(timed(lambda: lookup(tokens, 10, 8)) for _ in range(50))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    args = parser.parse_args()
    target = Target(load_model(args.target, dtype=args.dtype, device=args.device))
    bench, loaded = Bench(target, args.pairs, args.tokens), target.loaded
    report = {
        "machine": trace.machine(), "threads": torch.get_num_threads(), "torch": torch.__version__, "target": loaded.name,
        "dtype": loaded.dtype, "device": loaded.device, "pairs": args.pairs, "tokens": args.tokens,
    }  # fmt: skip
    for name, measure in {
        "chat, plain against transformers": bench.plain_against_transformers,
        "copy, ngram against plain": lambda: bench.method_against_plain("ngram", COPY),
        "chat, lm against plain": lambda: bench.method_against_plain("lm", CHAT),
        "chat, dflash against plain": lambda: bench.method_against_plain("dflash", CHAT),
        "chat, dspark against plain": lambda: bench.method_against_plain("dspark", CHAT),
        "share outside the models, plain": lambda: bench.overhead("plain", CHAT),
        "share outside the models, ngram": lambda: bench.overhead("ngram", COPY),
        "cost of a trace, ngram": lambda: bench.trace_cost("ngram", COPY),
        "cost of a trace, lm": lambda: bench.trace_cost("lm", CHAT),
        "n-gram search, ms": bench.ngram_search,
        "peak memory, GB": lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }.items():
        report[name] = measure()
        print(f"{name}: {_words(report[name])}", flush=True)
    print(json.dumps(report))
    return 0


def _words(value) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(entry)}" for key, entry in value.items())
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
