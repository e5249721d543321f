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


def seconds(rounds: Iterable[dict]) -> dict[str, float]:
    """Engine time by phase, in seconds."""
    total = dict.fromkeys(("draft", "target", "verify", "other"), 0.0)
    for record in rounds:
        for phase in total:
            total[phase] += record[f"t_{phase}"] / 1000
    return total


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
