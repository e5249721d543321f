"""The check: which drafted tokens survive, and what the target writes after them. One walk serves chains, trees and blocks.

At each node the children are offered in order. A child is accepted with the rule's chance; if it is refused, its share is
taken out of the law and the next sibling is offered; when no child is taken, the target's own token is drawn from what is
left. Under `exact` that token and the accepted ones together follow the target's law (Leviathan et al. 2022, theorem 3.5).

Lossless rules: `exact`, `match`. Lossy ones, here for the lesson and labelled so: `tolerance`, `typical`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.sampling import draw
from engine.types import Proposal, Trial, Verdict

TOLERANCE = 0.3  # tolerance: how much more the drafter may believe in its token than the target does
EPSILON, DELTA = 0.09, 0.3  # typical: Medusa's posterior threshold and alpha (Cai et al. 2024)


def residual(p: Tensor, q: Tensor) -> Tensor:
    """norm(max(p - q, 0)), the law to draw from after q's token was refused; p itself where rounding left no mass."""
    left = (p - q).clamp_min(0)
    mass = left.sum(-1, keepdim=True)
    return torch.where(mass > 0, left / mass, p)


@dataclass(frozen=True)
class Rule:
    """chance(p_x, q_x, p): probability of keeping token x; repair(p, q): the law after a refusal."""

    name: str
    lossless: bool
    chance: Callable[[float, float, Tensor], float]
    repair: Callable[[Tensor, Tensor], Tensor]
    own_sample: bool = False  # the target draws first; x is kept when it is that very token


def _typical(p_x: float, _q_x: float, p: Tensor) -> float:
    entropy = float(-torch.xlogy(p, p).sum())
    return float(p_x > min(EPSILON, DELTA * torch.tensor(-entropy).exp().item()))


RULES = {
    "exact": Rule("exact", True, lambda p_x, q_x, p: min(1.0, p_x / q_x) if q_x > 0 else float(p_x > 0), residual),
    # One draw of the target's own: kept if the draft is that token, else the draw itself is the correction. With the same
    # seed the text is the one that plain decoding writes.
    "match": Rule("match", True, lambda p_x, q_x, p: p_x, lambda p, q: p, own_sample=True),
    # Lossy. On refusal a fresh token is drawn from p, whatever q was.
    "tolerance": Rule("tolerance", False, lambda p_x, q_x, p: float(q_x - p_x <= TOLERANCE), lambda p, q: p),
    "typical": Rule("typical", False, _typical, lambda p, q: p),
}


def rule_named(name: str) -> Rule:
    """The rule of that name; ValueError lists the names there are."""
    if name not in RULES:
        raise ValueError(f"rule is {name!r}: choose one of {', '.join(RULES)}")
    return RULES[name]


def output_law(p: Tensor, q: Tensor, rule: Rule, draft: Tensor | None = None) -> Tensor:
    """The exact law of one emitted token under `rule`, for p, q [vocab]; `draft` (default q) is what tokens come from."""
    law = torch.zeros_like(p)
    for x, weight in enumerate((q if draft is None else draft).tolist()):
        point = torch.zeros_like(p).index_fill_(0, torch.tensor(x), 1.0)
        chance = rule.chance(float(p[x]), float(q[x]), p)
        after = residual(p, point) if rule.own_sample else rule.repair(p, q)
        law += weight * (chance * point + (1 - chance) * after)
    return law


def verify(
    proposal: Proposal, p: Tensor, accept: list[float], final: Callable[[int], float], rule: Rule = RULES["exact"]
) -> Verdict:
    """Walk down the tree. p: [1 + n, vocab], row 0 after the anchor, row i + 1 after node i. accept: one u per node;
    final(depth): the u of the target's own draw `depth` tokens into the round.

    One transfer to the host carries every node's token, parent, p and q; a vector is touched only where a node is refused.
    """
    tokens, parents, p_token, q_token = _to_host(proposal, p)
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(parents):
        children.setdefault(parent, []).append(node)
    path: list[int] = []
    trials: list[Trial] = []
    here = -1
    while True:
        law, refused = p[here + 1], False
        own = _pick(law, final(len(path))) if rule.own_sample else None
        for node in children.get(here, ()):
            p_x = float(law[tokens[node]]) if refused else p_token[node]
            u = final(len(path)) if rule.own_sample else accept[node]
            chance = rule.chance(p_x, q_token[node], law)
            kept = tokens[node] == own if rule.own_sample else u < chance
            trials.append(Trial(node, p_x, q_token[node], chance, u, kept))
            if kept:
                break
            law, refused = rule.repair(law, _q(proposal, node, law)), True
        else:
            u = final(len(path))
            return Verdict(path, _pick(law, u) if own is None else own, trials, law, u)
        path.append(node)
        here = node


def _to_host(proposal: Proposal, p: Tensor) -> tuple[list[int], list[int], list[float], list[float]]:
    if not len(proposal):
        return [], [], [], []
    x, parents = proposal.tokens, proposal.parents
    at_parent = p[parents + 1, x].double()
    q = torch.ones_like(at_parent) if proposal.q is None else proposal.q.gather(1, x[:, None])[:, 0].double()
    token, parent, p_token, q_token = torch.stack([x.double(), parents.double(), at_parent, q]).tolist()
    return [int(t) for t in token], [int(t) for t in parent], p_token, q_token


def _q(proposal: Proposal, node: int, like: Tensor) -> Tensor:
    if proposal.q is not None:
        return proposal.q[node]
    return torch.zeros_like(like).index_fill_(0, proposal.tokens[node : node + 1], 1.0)


def _pick(law: Tensor, u: float) -> int:
    return int(draw(law, torch.tensor(u, dtype=torch.float64, device=law.device)))
