"""DFlash: a whole block is guessed in one pass (Chen, Liang, Liu 2026, arXiv 2602.06036).

One denoising step and no order: the block's tokens are guessed from the same state, each without knowing the others. That
costs one pass whatever the block's length, and it is why later places fit together badly ("of course" and "no problem"
give "of problem"). The backbone is in block.py; here are its loss and two ways to read it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from engine.drafters.block import Backbone, BlockDrafter
from engine.drafters.lesson import Batch, fading, mean
from engine.model import LM
from engine.sampling import draw, warp


class DFlash(Backbone):
    """The backbone alone."""

    def loss(self, embed: nn.Module, head: nn.Module, batch: Batch, decay: float = 4.0) -> dict[str, Tensor]:
        """Cross-entropy against the text itself, fading along the block. The paper's decay is 7, 5 or 4 for blocks of
        16, 10 or 8."""
        law = self.law(embed, head, batch)
        labels, taught = law.labels, law.taught
        if self.words is not None:
            labels, taught = self.words.among(labels, taught)
        missed = cross_entropy(law.logits.float().flatten(0, -2), labels.flatten(), reduction="none")
        return {"loss": mean(missed.view_as(labels), fading(taught, decay))}


class DFlashDrafter(BlockDrafter):
    """sampled=False proposes each place's likeliest token: a point mass, which the verifier is told (q None).

    sampled=True draws every place from its own law, independently. Both are lossless; independent draws fit together worse.
    """

    def __init__(self, net: DFlash, target: LM, k: int | None = None, sampled: bool = False, **rest):
        super().__init__(net, target, k, **rest)
        self.sampled = sampled

    def guess(self, sequences, hidden):
        logits = linear(hidden, self.matrix)
        fields = {"logits": logits, "confidence": self.likeliest(logits)}
        if not self.sampled:
            return fields | {"tokens": self.ids(logits.argmax(-1))}
        q = torch.stack([warp(row, s.sampling) for row, s in zip(logits, sequences, strict=True)])
        return fields | {"tokens": self.ids(draw(q, self.uniforms(sequences))), "q": q}
