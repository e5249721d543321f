"""From logits to one token, in two steps that everything shares: warp() makes the law, draw() picks from it.

Target and drafter, plain, verify, bonus and residual all go through these two, so greedy is no special case (a one-hot
law) and the u that the trace shows is the whole explanation of a draw.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from engine.types import Sampling

DRAFT, ACCEPT, FINAL = 0, 1, 2  # streams of randomness: sharing one between drawing and testing a token is biased


def uniforms(seed: int, position: int, stream: int, n: int) -> list[float]:
    """n numbers in [0, 1) that depend on nothing but the arguments (Philox, a counter-based generator).

    `position` is the index of the first token that the round writes: a run can be paused, moved and continued from its
    tokens alone, and no global generator is touched.
    """
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, position, stream, 0])).random(n).tolist()


def warp(logits: Tensor, sampling: Sampling) -> Tensor:
    """Logits [..., vocab] -> the distribution really sampled from: temperature, then top-k, top-p and min-p.

    float32 at least, float64 if the logits are. Temperatures below 1e-5 are greedy: one-hot at the lowest index of the
    maximum. Ties at the edge of top-k stay in together. top_p 0 keeps the single best token.
    """
    logits = logits if logits.dtype == torch.float64 else logits.float()
    if sampling.temperature < 1e-5:
        return torch.zeros_like(logits).scatter_(-1, logits.argmax(-1, keepdim=True), 1.0)
    logits = (logits - logits.amax(-1, keepdim=True)) / sampling.temperature
    if 0 < sampling.top_k < logits.shape[-1]:
        kth = logits.topk(sampling.top_k, -1).values[..., -1:]
        logits = logits.masked_fill(logits < kth, -torch.inf)
    p = logits.softmax(-1)
    if sampling.top_p < 1:
        p = _nucleus(p, sampling.top_p)
    if sampling.min_p > 0:
        p = p.masked_fill(p < sampling.min_p * p.amax(-1, keepdim=True), 0)
        p = p / p.sum(-1, keepdim=True)
    return p


def _nucleus(p: Tensor, top_p: float) -> Tensor:
    """Keep the fewest most likely tokens whose mass reaches top_p (the one that crosses it included), ties by lowest id."""
    # Sorting a whole vocabulary costs more than the model's head, and few nuclei need it.
    width = min(p.shape[-1], 1024)
    if width < p.shape[-1] and bool((p.topk(width, -1).values.sum(-1) < top_p).any()):
        width = p.shape[-1]
    ids = p.topk(width, -1).indices.sort(-1).values
    ordered, order = p.gather(-1, ids).sort(dim=-1, descending=True, stable=True)
    keep = ordered.double().cumsum(-1) - ordered < top_p
    keep[..., 0] = True
    kept = torch.zeros_like(p).scatter_(-1, ids.gather(-1, order), ordered * keep)
    return kept / kept.sum(-1, keepdim=True)


def draw(law: Tensor, u: Tensor) -> Tensor:
    """Inverse CDF: laws [..., vocab] and uniforms [...] -> token ids [...]. Never an id without mass, never one beyond the
    vocabulary (a law of NaN gives the last id; the engine refuses such laws when it has them on the host)."""
    cdf = law.double().cumsum(-1)
    total = cdf[..., -1:].contiguous()
    chosen = torch.searchsorted(cdf, u.to(cdf)[..., None] * total, right=True)
    return torch.minimum(chosen, torch.searchsorted(cdf, total)).clamp_max(law.shape[-1] - 1)[..., 0]
