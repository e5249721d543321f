"""Folds over trace records: the only place where a run's numbers are added up. Definitions stand beside the numbers.

passes    forwards of the target, one a round; reading the prompt counts as one however many chunks it took
tokens    committed tokens: accepted drafts, corrections, bonuses and plain tokens
drafted   nodes that were really proposed; tested: nodes that met their acceptance test; accepted: nodes that passed it
offered, reached, kept: by position in the draft (index 0 = first drafted token): rounds that drafted one there, rounds whose
test got there, rounds that kept it. Survival at k = kept[k] / offered[k]; conditional acceptance at k = kept[k] / reached[k].
"""

from __future__ import annotations

import math
from collections.abc import Iterable

PHASES = ("draft", "target", "verify", "other")  # what a round's time is spent on
EMPTY = dict.fromkeys(("rounds", "passes", "tokens", "drafted", "tested", "accepted"), 0) | dict.fromkeys(
    ("offered", "reached", "kept"), []
)


def count(before: dict, verdicts: list[tuple[int, str]], tokens: int) -> dict:
    """The running counts after one more round: (depth, verdict) of its nodes, and how many tokens it committed."""
    kept = {depth for depth, verdict in verdicts if verdict == "kept"}
    tested = {depth for depth, verdict in verdicts if verdict in ("kept", "rejected")}
    return {
        "rounds": before["rounds"] + 1,
        "passes": before["passes"] + 1,
        "tokens": before["tokens"] + tokens,
        "drafted": before["drafted"] + len(verdicts),
        "tested": before["tested"] + sum(verdict in ("kept", "rejected") for _, verdict in verdicts),
        "accepted": before["accepted"] + sum(verdict == "kept" for _, verdict in verdicts),
        "offered": _by_position(before["offered"], {depth for depth, _ in verdicts}),
        "reached": _by_position(before["reached"], tested),
        "kept": _by_position(before["kept"], kept),
    }


def _by_position(before: list[int], depths: set[int]) -> list[int]:
    size = max([len(before), *depths])
    return [(before[i] if i < len(before) else 0) + (i + 1 in depths) for i in range(size)]


def total(runs: Iterable[dict]) -> dict:
    """The counts of several runs together."""
    runs, sums = list(runs), {}
    for name, empty in EMPTY.items():
        if isinstance(empty, list):
            size = max((len(run[name]) for run in runs), default=0)
            sums[name] = [sum(run[name][i] for run in runs if i < len(run[name])) for i in range(size)]
        else:
            sums[name] = sum(run[name] for run in runs)
    return sums


def seconds(rounds: Iterable[dict]) -> dict[str, float]:
    """Engine time by phase, in seconds."""
    total = dict.fromkeys(PHASES, 0.0)
    for record in rounds:
        for phase in total:
            total[phase] += record[f"t_{phase}"] / 1000
    return total


def elapsed(record: dict) -> float:
    """Wall time of a round in ms."""
    return sum(record[f"t_{phase}"] for phase in PHASES)


def decoding(rounds: list[dict]) -> dict[str, float | None]:
    """Tokens, seconds and tokens per second after the prompt was read (its round, the first, is left out)."""
    later = [r for r in rounds if r["i"] > 0]
    tokens, spent = sum(len(r["emit"]) for r in later), sum(seconds(later).values())
    return {"tokens": tokens, "seconds": spent, "tokens_per_second": tokens / spent if spent else None}


def ratio(part: float, whole: float) -> float | None:
    """part / whole, None where there is nothing to divide by."""
    return part / whole if whole else None


def interval(hits: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """95 % interval of a share hits / n (Wilson 1927)."""
    p, wide = hits / n, z * z / n
    middle, half = (p + wide / 2) / (1 + wide), z * math.sqrt(p * (1 - p) / n + wide / (4 * n)) / (1 + wide)
    return max(0.0, middle - half), min(1.0, middle + half)


def reliability(pairs: Iterable[tuple[float, bool]], bins: int = 20) -> dict:
    """How far confidences can be believed: (confidence, kept) of tested guesses, in bins of equal width.

    ece: mean distance between a bin's mean confidence and its share of kept guesses, weighted by the bin's guesses. brier: mean
    squared distance between confidence and outcome (0 or 1). auroc: chance that a kept guess was given more confidence than a
    rejected one, ties counting one half. Each is None where there is nothing to take it from.
    """
    pairs = [(confidence, bool(kept)) for confidence, kept in pairs]
    table = [{"n": 0, "kept": 0, "said": 0.0} for _ in range(bins)]  # said: sum of the confidences
    for confidence, kept in pairs:
        entry = table[min(bins - 1, int(confidence * bins))]
        entry["n"], entry["kept"], entry["said"] = entry["n"] + 1, entry["kept"] + kept, entry["said"] + confidence
    good, bad = ([c for c, kept in pairs if kept is which] for which in (True, False))
    wins = sum((g > b) + (g == b) / 2 for g in good for b in bad)
    return {
        "n": len(pairs),
        "bins": table,
        "ece": ratio(sum(abs(entry["said"] - entry["kept"]) for entry in table), len(pairs)),
        "brier": ratio(sum((confidence - kept) ** 2 for confidence, kept in pairs), len(pairs)),
        "auroc": ratio(wins, len(good) * len(bad)),
    }


def repeats_at(tokens: list[int], n: int = 8) -> int:
    """Where the first n-gram that occurred before ends; the length where none does. Small models loop, and a loop flatters
    every drafter."""
    seen = set()
    for end in range(n, len(tokens) + 1):
        gram = tuple(tokens[end - n : end])
        if gram in seen:
            return end
        seen.add(gram)
    return len(tokens)
