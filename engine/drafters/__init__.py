"""What every drafter is: `taps`, `observe`, `propose`. Plain decoding is the drafter that proposes nothing.

Order of calls: a sequence's prompt is observed before its first proposal; after every round the committed tokens are
observed, then the next proposal is asked for. A drafter with a cache of its own compares what it cached with
`sequence.tokens` and keeps the common prefix: there is nothing to reset or to roll back.

Rule of honesty: whether a node is proposed may depend on the nodes before it, never on the value that was drawn for it.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from engine.types import Proposal, Sequence


class Drafter(Protocol):
    taps: tuple[int, ...]  # decoder layers (0-based) whose raw output it reads
    sees: dict[str, Any]  # what its guesses are made from, for the trace: see `sees` in engine/trace.py
    passes: int  # forwards of a net of its own so far

    def observe(self, sequences: list[Sequence], features: list[Tensor | None]) -> None:
        """features[b]: [n, tapped width] of the n tokens that entered the target's cache last."""

    def propose(self, sequences: list[Sequence]) -> list[Proposal]:
        """One tree per sequence, at most `sequence.room` deep."""


def chain(tokens: Tensor | list[int], device: torch.device | str = "cpu", **rest) -> Proposal:
    """Each token hangs on the one before it."""
    tokens = torch.as_tensor(tokens, dtype=torch.long, device=device)
    return Proposal(tokens, torch.arange(-1, len(tokens) - 1, device=tokens.device), **rest)


class NoDraft:
    """Plain autoregressive decoding."""

    taps: tuple[int, ...] = ()
    sees = {"inputs": []}
    passes = 0

    def observe(self, sequences, features):
        pass

    def propose(self, sequences):
        return [chain([])] * len(sequences)
