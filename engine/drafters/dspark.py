"""DSpark: a block in one pass, then a light head that makes each token know the one before it (Cheng et al. 2026,
arXiv 2607.05147; reference code DeepSpec).

The backbone of block.py gives every place of the block its base logits. A Markov head of low rank walks over the places
and adds a bias that depends on the token just drawn, so the block is a true chain of draws with exact conditional laws. A
confidence head says before each draw how likely the draw is to be accepted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, linear

from engine.drafters.block import Backbone, BlockConfig, BlockDrafter, Law
from engine.drafters.lesson import Batch, Words, fading, mean, score, truth
from engine.model import LM
from engine.sampling import draw, warp

KINDS = ("vanilla", "gated", "rnn")


@dataclass(frozen=True)
class DSparkConfig(BlockConfig):
    markov_rank: int = 256  # 0 = no Markov head
    markov_kind: str = "vanilla"
    confidence: bool = True
    confidence_reads_token: bool = True  # beside the hidden state, the Markov embedding of the token before


class MarkovHead(nn.Module):
    """Bias on a place's logits, given the token before it.

    vanilla: a low-rank table of token pairs. gated: the place's hidden state chooses which dimensions of the token's
    embedding count. rnn: a small recurrent state remembers the tokens before that one.
    """

    def __init__(self, config: DSparkConfig):
        super().__init__()
        self.kind, rank = config.markov_kind, config.markov_rank
        self.markov_w1 = nn.Embedding(config.vocabulary, rank)
        self.markov_w2 = nn.Linear(rank, config.vocabulary, bias=False)
        if self.kind == "gated":
            self.gate_proj = nn.Linear(config.hidden + rank, rank)
        if self.kind == "rnn":
            self.joint_proj = nn.Linear(2 * rank + config.hidden, 3 * rank)

    def forward(
        self, hidden: Tensor, before: Tensor, state: Tensor | None, words: Words | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """hidden [..., hidden] of a place, token before it [...], state (None at the start) -> bias [..., ids], state."""
        x = self.markov_w1(before)
        if self.kind == "gated":
            x = self.gate_proj(torch.cat([hidden, x], -1)).sigmoid() * x
        if self.kind == "rnn":
            state = torch.zeros_like(x) if state is None else state
            keep, fresh, out = self.joint_proj(torch.cat([state, x, hidden], -1)).chunk(3, -1)
            keep = keep.sigmoid()
            state = keep * state + (1 - keep) * fresh.tanh()
            x = out.tanh()
        return score(x, self.markov_w2, words), state


class ConfidenceHead(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.proj = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x)[..., 0]


class DSpark(Backbone):
    """The backbone and its two heads; either may be absent."""

    def __init__(self, config: DSparkConfig):
        super().__init__(config)
        reads_token = config.confidence and config.confidence_reads_token
        if config.markov_kind not in KINDS:
            raise ValueError(f"markov_kind is {config.markov_kind!r}: choose one of {', '.join(KINDS)}")
        if reads_token and not config.markov_rank:
            raise ValueError("the confidence head reads the Markov embedding, but markov_rank is 0")
        self.markov_head = MarkovHead(config) if config.markov_rank else None
        width = config.hidden + (config.markov_rank if reads_token else 0)
        self.confidence_head = ConfidenceHead(width) if config.confidence else None

    def confidence(self, hidden: Tensor, before: Tensor, attached: bool = True) -> Tensor:
        """Logit of the chance that a place's token is accepted if those before it were: [..., hidden], [...] -> [...]."""
        x = hidden
        if self.config.confidence_reads_token:
            x = torch.cat([hidden, self.markov_head.markov_w1(before)], -1)
        return self.confidence_head(x if attached else x.detach())

    def biases(self, hidden: Tensor, before: Tensor) -> Tensor:
        """The Markov head along known tokens: hidden [..., n, hidden], before [..., n] -> [..., n, words]."""
        if self.config.markov_kind != "rnn":  # no state: all places at once
            return self.markov_head(hidden, before, None, self.words)[0]
        state, out = None, []
        for i in range(before.shape[-1]):
            bias, state = self.markov_head(hidden[..., i, :], before[..., i], state, self.words)
            out.append(bias)
        return torch.stack(out, -2)

    def law(self, embed: nn.Module, head: nn.Module, batch: Batch) -> Law:
        law = super().law(embed, head, batch)
        if self.markov_head is None:
            return law
        return replace(law, logits=law.logits + self.biases(law.hidden, law.before))

    def loss(
        self, embed: nn.Module, head: nn.Module, batch: Batch, decay: float = 4.0, attached: bool = True
    ) -> dict[str, Tensor]:
        """0.1 cross-entropy + 0.9 L1 distance to the target's law + the confidence head's binary cross-entropy; the total
        and its terms.

        The confidence head learns 1 - L1 / 2, the chance of acceptance. attached=False keeps its gradient to itself.
        """
        law = self.law(embed, head, batch)
        labels, taught = law.labels, law.taught
        if self.words is not None:
            labels, taught = self.words.among(labels, taught)
        logp, real = law.logits.float().log_softmax(-1), self._truth(head, batch)
        weights = fading(taught, decay)
        distance = (logp.exp() - real).abs().sum(-1)
        if self.words is not None:
            distance = distance + (1 - real.sum(-1)).clamp_min(
                0
            )  # what the target gives to words that are never drafted
        missed = -logp.gather(-1, labels[..., None])[..., 0]
        terms = {"cross_entropy": mean(missed, weights), "distance": mean(distance, weights)}
        total = 0.1 * terms["cross_entropy"] + 0.9 * terms["distance"]
        if self.confidence_head is not None:
            said = self.confidence(law.hidden, law.before, attached).float()
            surprise = binary_cross_entropy_with_logits(said, (1 - distance / 2).detach(), reduction="none")
            terms["confidence"] = mean(surprise, fading(law.taught, decay))
            total = total + terms["confidence"]
        return {"loss": total, **terms}

    def _truth(self, head: nn.Module, batch: Batch) -> Tensor:
        """The target's own law for every place, [batch, blocks, drafts, words]."""
        last, drafts = batch.last, self.config.drafts
        places = batch.anchors.clamp_min(0)[..., None] + torch.arange(drafts, device=last.device)
        index = places.clamp_max(last.shape[1] - 2).flatten(1)
        rows = last.gather(1, index[..., None].expand(-1, -1, last.shape[-1]))
        total = None if batch.total is None else batch.total.gather(1, index)
        return truth(head, rows, total, self.words).unflatten(1, places.shape[1:])


class DSparkDrafter(BlockDrafter):
    """Draws every token from the corrected law, which is its exact q. Both heads can be switched off: without the Markov
    head the logits are the backbone's, without the confidence head the probability of the likeliest token stands in."""

    def __init__(
        self, net: DSpark, target: LM, k: int | None = None, markov: bool = True, confidence: bool = True, **rest
    ):
        super().__init__(net, target, k, **rest)
        self.markov = markov and net.markov_head is not None
        self.confidence = confidence and net.confidence_head is not None

    @property
    def sees(self) -> dict:
        seen = super().sees
        return seen | {"inputs": seen["inputs"] + ["guesses"] * self.markov}

    def guess(self, sequences, hidden):
        base, before, state = linear(hidden, self.matrix), self.anchors(sequences), None
        u, places = self.uniforms(sequences), []
        for i in range(self.k):
            logits = base[:, i]
            if self.markov:
                bias, state = self.net.markov_head(hidden[:, i], before, state, self.net.words)
                logits = logits + bias[..., : logits.shape[-1]]
            if self.confidence:  # asked before the draw, of the token before
                sure = self.net.confidence(hidden[:, i], before).float().sigmoid()
            else:
                sure = self.likeliest(logits)
            q = torch.stack([warp(row, s.sampling) for row, s in zip(logits, sequences, strict=True)])
            before = self.ids(draw(q, u[:, i]))
            places.append({"tokens": before, "q": q, "logits": logits, "confidence": sure})
        fields = {name: torch.stack([place[name] for place in places], 1) for name in places[0]}
        return fields | {"base": base} if self.markov else fields
