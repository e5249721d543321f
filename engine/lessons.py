"""Ways to check one guess, for the lesson: the engine's own rules and wrong ones that look right. Nothing decodes with these.

A lesson says where the guess comes from, what the check is told about it, and which Rule judges. draws() sends real guesses
through verify(); law() and chance() are what must come out of it in the long run.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.drafters import chain
from engine.sampling import ACCEPT, DRAFT, FINAL, draw, uniforms
from engine.verify import RULES, Rule, output_law, verify


def _spike(law: Tensor) -> Tensor:
    return torch.zeros_like(law).index_fill_(0, law.argmax(), 1.0)


@dataclass(frozen=True)
class Lesson:
    rule: Rule
    mark: str  # "lossless", "lossy" or "wrong"
    argmax: bool = False  # the guess is q's likeliest token, not a draw from q
    spike: bool = False  # ... and the check is told so: q is a point mass there

    def _sides(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """What guesses are drawn from, and the q that the check believes in."""
        return _spike(q) if self.argmax else q, _spike(q) if self.spike else q

    def law(self, p: Tensor, q: Tensor) -> Tensor:
        """The exact law of the token that comes out, for p, q [vocab]."""
        draft, told = self._sides(q)
        return output_law(p, told, self.rule, draft)

    def chance(self, p: Tensor, q: Tensor) -> float:
        """The exact chance that a guess is kept, before it is drawn."""
        draft, told = self._sides(q)
        return sum(
            weight * self.rule.chance(p_x, q_x, p)
            for weight, p_x, q_x in zip(draft.tolist(), p.tolist(), told.tolist(), strict=True)
        )

    def draws(self, p: Tensor, q: Tensor, n: int, seed: int) -> list[tuple[int, bool]]:
        """(token, kept) of n rounds of one guess each, every one judged by verify()."""
        us = [uniforms(seed, 0, stream, n) for stream in (DRAFT, ACCEPT, FINAL)]
        draft = self._sides(q)[0].expand(n, -1)
        guesses = draw(draft, torch.tensor(us[0], dtype=torch.float64)).tolist()
        told, rows, out = None if self.spike else q[None], p.expand(2, -1), []
        for guess, accept, own in zip(guesses, *us[1:], strict=True):
            verdict = verify(chain([guess], q=told), rows, [accept], lambda _depth, u=own: u, self.rule)
            out.append((guess, True) if verdict.path else (verdict.next_token, False))
        return out


EXACT = RULES["exact"]
LESSONS = {name: Lesson(rule, "lossless" if rule.lossless else "lossy") for name, rule in RULES.items()} | {
    # The likeliest token is guessed and the check knows: q is a spike, p(x) decides, a refused x is crossed out of p.
    "spike": Lesson(EXACT, "lossless", argmax=True, spike=True),
    "resample": Lesson(Rule("resample", False, EXACT.chance, lambda p, q: p), "wrong"),
    "argmax": Lesson(Rule("argmax", False, EXACT.chance, lambda p, q: _spike(p)), "wrong"),
    "greedy": Lesson(EXACT, "wrong", argmax=True),  # the likeliest token is guessed, but judged as if drawn from q
}
