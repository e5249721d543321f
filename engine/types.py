"""The whole vocabulary of the engine: seven values, no behaviour beyond properties.

Glossary. Target: the model whose text we want. Drafter: whatever guesses. Round: one Step, a draft and its check.
Anchor: the last committed token, not yet run through the target. Node: a drafted token in its tree. Accepted, rejected,
not reached: the three fates of a node. Correction: the token the target writes after a rejection. Bonus: the one it writes
when nothing was rejected. Row and slot: a sequence's place in the cache, and a token's place in its row. Tap: a decoder
layer whose raw output a drafter reads; feature: what it reads there.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

_ids = itertools.count()


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen and when to stop. Temperature 0 is greedy; top_k 0, top_p 1 and min_p 0 are off.

    `stop` holds token ids that end the text (empty = ignore end-of-text). The output ends with the token that stopped it.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    max_new: int = 128
    stop: frozenset[int] = frozenset()
    stop_strings: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self):
        for name, low, high, whole in (
            ("temperature", 0, 100, False),
            ("top_k", 0, math.inf, True),
            ("top_p", 0, 1, False),
            ("min_p", 0, 1, False),
            ("max_new", 1, 1_000_000, True),
            ("seed", 0, 2**63 - 1, True),
        ):
            value = getattr(self, name)
            number = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
            if not number or not low <= value <= high:  # NaN fails the comparison
                kind = "a whole number" if whole else "a number"
                bound = f"of {low} or more" if high == math.inf else f"from {low} to {high}"
                raise ValueError(f"{name} is {value!r}: give {kind} {bound}")
        if any(not text for text in self.stop_strings):
            raise ValueError("a stop string is empty: give at least one character")


@dataclass(eq=False)
class Sequence:
    """One request while it is alive. Its tokens are the truth; everything cached is derived from them."""

    tokens: list[int]
    prompt_length: int
    sampling: Sampling
    limit: int  # most tokens it may ever hold: prompt + max_new, or the target's context
    id: int = field(default_factory=lambda: next(_ids))
    row: int = -1
    done: str | None = None  # "stop", "stop_string", "length", "cancelled"

    @property
    def output(self) -> list[int]:
        return self.tokens[self.prompt_length :]

    @property
    def room(self) -> int:
        """How many tokens may be drafted: the round's own correction or bonus takes one place."""
        return max(0, self.limit - len(self.tokens) - 1)


@dataclass(frozen=True)
class Proposal:
    """A token tree that hangs off the anchor: a chain, a block, a real tree, or nothing.

    tokens, parents: [n] long, parents before children, -1 = the anchor. q: [n, vocab], the law each node was drawn from
    given its elder siblings, or None where the drafter did not draw (a point mass). logits: [n, vocab], the drafter's own;
    base: what they were before a sequential head corrected them. confidence: [n], the drafter's estimate, made before the
    node was drawn, of its chance of acceptance given that the nodes before it were accepted.
    story: per node, whatever the trace should tell about it ("pass", "source", ...).
    """

    tokens: Tensor
    parents: Tensor
    q: Tensor | None = None
    logits: Tensor | None = None
    base: Tensor | None = None
    confidence: Tensor | None = None
    story: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""  # why nothing was drafted: "no_match", "draft_context", "last_token", "low_confidence"

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class Trial:
    """One acceptance test: p and q of the node's token, the chance that followed, the draw u, the outcome."""

    node: int
    p: float
    q: float
    chance: float
    u: float
    accepted: bool


@dataclass(frozen=True)
class Verdict:
    """The accepted path (node indices, root to leaf), then the target's own token and the law it was drawn from."""

    path: list[int]
    next_token: int
    trials: list[Trial]
    law: Tensor  # [vocab], what next_token was drawn from: p, or the residual after a rejection
    u: float  # the draw that picked next_token from law


@dataclass(frozen=True)
class Step:
    """One sequence's share of one round. `tokens` is what was committed, cut at stop and budget.

    logits, p: [1 + n, vocab]; row 0 follows the anchor, row i + 1 follows node i. Seconds and passes are the whole batch's.
    """

    sequence: Sequence
    start: int  # length before this round
    proposal: Proposal
    logits: Tensor
    p: Tensor
    verdict: Verdict
    tokens: list[int]
    rows: int  # token rows the target computed for this sequence
    seconds: dict[str, float]  # draft, target, verify, other
    passes: dict[str, int]  # forwards of the drafter's net and of the target
    done: str | None
