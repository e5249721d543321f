"""Every method on the same prompts: how far guesses hold, and what that is worth in seconds.

    python -m engine.experiment --prompts questions.jsonl --out assets/experiments/methods.json

Prompts are one a line, as JSON with "turns" (the first is taken), "question_id" and "category", or as plain text. Output counts
up to its first repeated run of eight tokens: small models loop, and a loop flatters every drafter. At temperature 0 the prompts
run one by one through all methods, plain decoding among them, in an order that changes, and are timed; at other temperatures
they run in batches and only counts are kept. The file holds raw counts for every prompt, written as they come, so that all
figures can be made again.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from engine import metrics, trace
from engine.engine import Engine
from engine.load import load_model
from engine.methods import Target, build_drafter
from engine.run import encode, end_ids
from engine.training.progress import Progress, stopping
from engine.types import Sampling

VARIANTS = {  # name: (method, knobs)
    "plain": ("plain", {}),
    "ngram": ("ngram", {}),
    "lm": ("lm", {"k": 7}),
    "dflash": ("dflash", {}),
    "dflash, drawn": ("dflash", {"sampled": True}),
    "dspark": ("dspark", {}),
    "dspark, Markov head off": ("dspark", {"markov": False}),
    "dspark, threshold 0.3": ("dspark", {"threshold": 0.3}),
}
DRAWN = {"dflash, drawn"}  # the same as another where nothing is drawn, so left out at temperature 0
LOOP = 8  # tokens


@dataclass(frozen=True)
class Round:
    """What is kept of a Step: its tensors are let go."""

    tokens: list[int]
    verdicts: list[tuple[int, str]]
    seconds: dict[str, float]


def counts(rounds: list[Round]) -> dict:
    """Totals of one run up to its first loop, without the round that read the prompt; seconds of the same rounds."""
    limit = metrics.repeats_at([token for r in rounds for token in r.tokens], LOOP)
    at, total, seconds, drafting = len(rounds[0].tokens), metrics.EMPTY, 0.0, 0.0
    for r in rounds[1:]:
        if at >= limit:
            break
        total = metrics.count(total, r.verdicts, min(len(r.tokens), limit - at))
        seconds, drafting = seconds + sum(r.seconds.values()), drafting + r.seconds.get("draft", 0.0)
        at += len(r.tokens)
    return total | {"seconds": round(seconds, 5), "draft_seconds": round(drafting, 5)}


def decode(target: Target, variant: str, prompts: list[list[int]], sampling: Sampling) -> list[list[Round]]:
    """The rounds of every prompt; as many at once as the target has rows."""
    method, knobs = VARIANTS[variant]
    drafter, _, _ = build_drafter(target, method, **knobs)
    engine = Engine(target.lm, drafter, vocabulary=target.loaded.vocabulary)
    sequences = [engine.submit(ids, replace(sampling, seed=i)) for i, ids in enumerate(prompts)]
    rounds: dict[int, list[Round]] = {s.id: [] for s in sequences}
    while not all(s.done for s in sequences):
        for step in engine.step():
            rounds[step.sequence.id].append(Round(step.tokens, trace.verdicts(step), step.seconds))
    return [rounds[s.id] for s in sequences]


def timed(target: Target, variants: list[str], prompts: list[list[int]], max_new: int) -> Iterator[tuple[int, dict]]:
    """(prompt, {variant: counts and seconds}), greedy; the order of the methods changes with every prompt."""
    sampling = Sampling(max_new=max_new, stop=end_ids(target.loaded))
    for i, ids in enumerate(prompts):
        order = random.Random(i).sample(variants, len(variants))
        told = {}
        for variant in order:
            told[variant] = counts(decode(target, variant, [ids], sampling)[0])
        yield i, told


def bootstrap(rows: list[dict], fold: Callable[[list[dict]], float], draws: int = 2000) -> tuple[float, float, float]:
    """A figure of all prompts together with its 95 % interval over prompts (Efron 1979)."""
    dice = random.Random(0)
    found = sorted(fold(dice.choices(rows, k=len(rows))) for _ in range(draws))
    return fold(rows), found[round(0.025 * draws)], found[round(0.975 * draws)]


def speed_up(rows: list[dict], variant: str) -> tuple[float, float, float]:
    """How many times faster than plain: tokens per second of all prompts together, with its interval."""

    def ratio(some: list[dict]) -> float:
        plain, other = (
            sum(r[v]["tokens"] for r in some) / sum(r[v]["seconds"] for r in some) for v in ("plain", variant)
        )
        return other / plain

    return bootstrap(rows, ratio)


def per_pass(rows: list[dict], variant: str) -> tuple[float, float, float]:
    """Committed tokens per target pass, the target's own token included, with its interval."""
    return bootstrap(
        rows, lambda some: sum(r[variant]["tokens"] for r in some) / sum(r[variant]["passes"] for r in some)
    )


def read_prompts(path: Path, number: int) -> list[dict]:
    """The first prompts of every category, as evenly as possible."""
    entries = []
    for i, line in enumerate(line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()):
        given = json.loads(line) if line.startswith("{") else {"turns": [line]}
        if not given.get("turns"):
            raise ValueError(f"prompt {i + 1} of {path} has no turns")
        entries.append(
            {"id": given.get("question_id", i), "category": given.get("category", ""), "text": given["turns"][0]}
        )
    kinds: dict[str, list[dict]] = {}
    for entry in entries:
        kinds.setdefault(entry["category"], []).append(entry)
    chosen = []
    for place in range(len(entries)):
        chosen += [kind[place] for kind in kinds.values() if place < len(kind)]
    if not chosen:
        raise ValueError(f"{path} holds no prompt")
    return chosen[:number]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--number", type=int, default=60)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--max-new", type=int, default=96)
    parser.add_argument("--temperatures", type=float, nargs="*", default=[1.0], help="beside 0")
    parser.add_argument("--rows", type=int, default=8, help="prompts at once where nothing is timed")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--target", default=None)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    variants = list(dict.fromkeys(["plain", *args.variants]))  # everything is compared with plain
    if 0 in args.temperatures:
        sys.exit("stopped: temperature 0 is always there; --temperatures names others")
    with stopping(f"what was counted is in {args.out}"):
        entries = read_prompts(args.prompts, args.number)
        loaded = load_model(args.target, dtype=args.dtype, device=args.device)
        ids = [encode(loaded, entry["text"]) for entry in entries]
        target = Target(loaded)
        report = {
            "command": "python -m engine.experiment " + shlex.join(sys.argv[1:]), "date": time.strftime("%Y-%m-%d"),
            "machine": trace.machine(), "threads": torch.get_num_threads(), "torch": torch.__version__,
            "target": {"name": loaded.name, "hash": loaded.hash, "dtype": loaded.dtype, "device": loaded.device},
            "max_new": args.max_new, "loop": LOOP, "weights": weights(target, variants),
            "prompts": [{"id": e["id"], "category": e["category"]} for e in entries],
            "runs": {"0": []},
        }  # fmt: skip
        decode(target, "plain", ids[:1], Sampling(max_new=8))
        with Progress("timing at temperature 0") as progress:
            for i, told in timed(target, [v for v in variants if v not in DRAWN], ids, args.max_new):
                report["runs"]["0"].append(told)
                write(report, args.out)
                progress((i + 1) / len(ids))
        wide = Target(loaded, args.rows)
        for temperature in args.temperatures:
            rows: list[dict] = [{} for _ in ids]
            for variant in variants:
                print(f"temperature {temperature}, {variant}", file=sys.stderr)
                sampling = Sampling(temperature=temperature, max_new=args.max_new, stop=end_ids(loaded))
                for row, rounds in zip(rows, decode(wide, variant, ids, sampling), strict=True):
                    row[variant] = {n: x for n, x in counts(rounds).items() if "seconds" not in n}
            report["runs"][f"{temperature:g}"] = rows
            write(report, args.out)
    for line in table(report):
        print(line)


def write(report: dict, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, separators=(",", ":")) + "\n")


def weights(target: Target, variants: list[str]) -> dict[str, str]:
    """Hashes of the drafters' weights by method."""
    out = {}
    for method, knobs in (VARIANTS[v] for v in variants):
        _, loaded, _ = build_drafter(target, method, **knobs)
        if loaded is not None:
            out[method] = loaded.hash
    return out


def total(rows: list[dict], variant: str) -> dict:
    """Counts of all prompts together."""
    return metrics.total(row[variant] for row in rows)


def table(report: dict) -> list[str]:
    """The report as lines of Markdown, two tables a temperature."""
    lines = []
    for temperature, rows in report["runs"].items():
        timed = "seconds" in rows[0]["plain"]
        places = max(len(r[v]["offered"]) for r in rows for v in r)
        lines += [
            f"Temperature {temperature}:",
            "",
            "| method | tokens per pass |" + (" speed-up | draft time |" if timed else ""),
        ]
        lines.append("|---|---|" + ("---|---|" if timed else ""))
        for variant in (v for v in VARIANTS if v in rows[0]):
            line = f"| {variant} | {_with(per_pass(rows, variant))} |"
            if timed:
                gain = _with(speed_up(rows, variant)) if variant != "plain" else "1"
                share = sum(r[variant]["draft_seconds"] for r in rows) / sum(r[variant]["seconds"] for r in rows)
                line += f" {gain} | {share:.0%} |"
            lines.append(line)
        lines += [
            "",
            f"| kept of tested, temperature {temperature} | " + " | ".join(map(str, range(1, places + 1))) + " |",
        ]
        lines.append("|---|" + "---|" * places)
        for variant in (v for v in VARIANTS if v in rows[0]):
            sums = total(rows, variant)
            if sums["reached"]:
                lines.append(f"| {variant} | " + " | ".join(_rates(sums["kept"], sums["reached"], places)) + " |")
        lines.append("")
    return lines


def _with(found: tuple[float, float, float]) -> str:
    return "{:.2f} ({:.2f} to {:.2f})".format(*found)


def _rates(kept: list[int], reached: list[int], places: int) -> Iterator[str]:
    """Conditional acceptance with half the width of its interval, by position."""
    for i in range(places):
        n = reached[i] if i < len(reached) else 0
        hits = kept[i] if i < len(kept) else 0
        low, high = metrics.interval(hits, n) if n else (0, 0)
        yield f"{hits / n:.2f} ±{(high - low) / 2:.2f}" if n >= 20 else ""


if __name__ == "__main__":
    main()
