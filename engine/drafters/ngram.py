"""Prompt lookup: if the last few tokens stood earlier in the text, guess that what followed them follows again.

No weights, no forward. Good where the output repeats its input: code edits, summaries, tables (Saxena 2023; also known as
prompt lookup decoding).
"""

from __future__ import annotations

import numpy as np
import torch

from engine.drafters import chain
from engine.types import Proposal, Sequence


class NgramDrafter:
    """Rule: the longest match wins, of at most `n` and at least `shortest` tokens; among equals the latest that has k
    tokens behind it, else the earliest, which has the most. Prompt and output are searched; the ending never matches
    itself. Single tokens match by accident, and a wrong draft costs a wide check: hence two at least."""

    taps: tuple[int, ...] = ()
    sees = {"inputs": ["text"]}
    passes = 0

    def __init__(self, k: int = 8, n: int = 4, shortest: int = 2, device: torch.device | str = "cpu"):
        self.k, self.n, self.shortest, self.device = k, n, shortest, device

    def observe(self, sequences, features):
        pass

    def propose(self, sequences: list[Sequence]) -> list[Proposal]:
        return [self._propose(s) for s in sequences]

    def _propose(self, sequence: Sequence) -> Proposal:
        k = min(self.k, sequence.room)
        if k == 0:
            return chain([], self.device, note="last_token")
        found = lookup(sequence.tokens, self.n, k)
        if found is None or found[1] < self.shortest:
            return chain([], self.device, note="no_match")
        start, length = found
        guess = sequence.tokens[start : start + k]
        for i, token in enumerate(guess):
            if token in sequence.sampling.stop:  # nothing can follow the end of the text
                guess = guess[: i + 1]
                break
        story = [{"pass": 0, "source": [start - length, start + len(guess)], "matched": length}] * len(guess)
        return chain(guess, self.device, story=story)


def lookup(tokens: list[int], n: int, k: int) -> tuple[int, int] | None:
    """Where the best continuation starts, and how many tokens matched before it; None without a match."""
    ids = np.asarray(tokens)
    ends = np.flatnonzero(ids[:-1] == ids[-1])  # places where the last token stood before
    length = 0
    while len(ends) and length < n:
        best, length = ends, length + 1
        ends = ends[ends >= length]
        ends = ends[ids[ends - length] == ids[-1 - length]] if length < len(ids) else ends[:0]
    if length == 0:
        return None
    full = best[best + k < len(ids)]
    return int(full[-1] if len(full) else best[0]) + 1, length
