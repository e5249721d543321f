"""What the losses of all trained drafters share: a batch of text, what is to be learnt from it, and how misses are weighed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear


@dataclass(frozen=True)
class Batch:
    """Texts with what the target knew about them.

    tokens [batch, length]; own [batch, length] marks what the target wrote itself; features [batch, length, taps * hidden]:
    the tapped layers; last [batch, length, hidden]: its normalised final states; total [batch, length]: log of the sum of
    its exponentiated logits; anchors [batch, blocks]: places where blocks begin, -1 = none. What is not read is None.
    """

    tokens: Tensor
    own: Tensor
    features: Tensor | None = None
    last: Tensor | None = None
    total: Tensor | None = None
    anchors: Tensor | None = None


class Words:
    """A drafter's own vocabulary: the most frequent few thousand ids carry nearly all of a text, at a fraction of the price of
    a whole vocabulary (FR-Spec; Zhao et al. 2025). Others are never drafted, which costs acceptance and never truth."""

    def __init__(self, ids: Tensor, vocabulary: int):
        self.ids = ids.sort().values
        self.place = torch.full((vocabulary,), -1, device=ids.device)
        self.place[self.ids] = torch.arange(len(ids), device=ids.device)

    def among(self, labels: Tensor, taught: Tensor) -> tuple[Tensor, Tensor]:
        """Labels as places among these words; others are not taught."""
        places = self.place[labels]
        return places.clamp_min(0), taught & (places >= 0)

    def spread(self, values: Tensor, elsewhere: float) -> Tensor:
        """Values [..., words] laid out in the whole vocabulary."""
        out = values.new_full((*values.shape[:-1], len(self.place)), elsewhere)
        out[..., self.ids] = values
        return out


def as_ids(places: Tensor, words: Words | None) -> Tensor:
    """Places in a drafter's own vocabulary as ids; they are ids already where it has all of them."""
    return places if words is None else words.ids[places]


def score(states: Tensor, matrix: nn.Module, words: Words | None) -> Tensor:
    """states [..., width] through an output matrix, for all ids or some."""
    return matrix(states) if words is None else linear(states, matrix.weight[words.ids])


@torch.no_grad()
def truth(matrix: nn.Module, last: Tensor, total: Tensor | None, words: Words | None) -> Tensor:
    """The target's own law from its final states [..., hidden]: over all ids, or the share of some of them; `total` [...] as in
    Batch."""
    logits = score(last, matrix, words).float()
    return logits.softmax(-1) if words is None else (logits - total[..., None]).exp()


def move(net: nn.Module, like: Tensor) -> nn.Module:
    """Parameters in the number format and on the device of `like`; buffers may be the target's own and stay as they are."""
    for p in net.parameters():
        p.data = p.data.to(like.device, like.dtype)
    return net


def choose_anchors(own: Tensor, count: int, generator: torch.Generator | None = None) -> Tensor:
    """At most `count` random positions a row, [batch, blocks] ascending, -1 where a row has too few. own [batch, length]
    marks the tokens to learn; an anchor and its successor must both be such tokens, as they are when drafting."""
    good = own[:, :-1] & own[:, 1:]
    lots = torch.rand(good.shape, generator=generator).to(own.device).masked_fill(~good, -1.0)
    best = lots.topk(min(count, good.shape[1]), -1)
    return best.indices.masked_fill(best.values < 0, -1).sort(-1).values


def lesson(batch: Batch, drafts: int) -> tuple[Tensor, Tensor]:
    """What blocks have to guess, [batch, blocks, drafts], and how far: up to the first token that is not to be learnt."""
    behind = batch.anchors[..., None] + torch.arange(1, drafts + 1, device=batch.tokens.device)
    index = behind.clamp_max(batch.tokens.shape[1] - 1).flatten(1)
    labels, learnt = (table.gather(1, index).view_as(behind) for table in (batch.tokens, batch.own))
    taught = learnt & (behind < batch.tokens.shape[1]) & (batch.anchors[..., None] >= 0)
    return labels, taught.long().cumprod(-1).bool()


def fading(taught: Tensor, decay: float) -> Tensor:
    """Weights exp(-i / decay) by place in the block, 0 where nothing is taught: an early miss costs all that follows."""
    places = torch.arange(taught.shape[-1], device=taught.device)
    return torch.exp(-places / decay) * taught


def mean(values: Tensor, weights: Tensor) -> Tensor:
    """Weighted mean; 0 where nothing has weight."""
    return (values * weights).sum() / weights.sum().clamp_min(1e-6)
