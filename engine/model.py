"""A causal LM over slab rows: masks, positions, taps. The only file that touches the insides of transformers.

The stock model runs unchanged; an attention function registered with transformers reads keys and values straight from the
slab and takes its mask from a `Sight`, built once a forward from row lengths and the tree's parents.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers import AttentionInterface

from engine.cache import SlabCache

PREFILL = 256  # prompt tokens in one forward: small enough that a run can be stopped inside a long prompt


@dataclass
class Sight:
    """What each new row may look at, for one forward.

    visible: [batch, 1, width, extent] or None when a single row sees everything; key_positions: [batch, extent] and
    positions: [batch, width], for layers with a sliding window.
    """

    visible: Tensor | None
    positions: Tensor | None = None
    key_positions: Tensor | None = None
    _made: dict = field(default_factory=dict)

    def mask(self, group: int, window: int | None, device: torch.device) -> Tensor | None:
        """Boolean mask for `group` query heads that share one key head, stacked as rows: [batch, 1, group*width, extent]."""
        key = (group, window, device)
        if key not in self._made:
            visible = self.visible
            if window:
                near = self.key_positions[:, None, None, :] > self.positions[:, None, :, None] - window
                visible = near if visible is None else visible & near
            self._made[key] = None if visible is None else visible.to(device).repeat(1, 1, group, 1)
        return self._made[key]


def slab_attention(module, query, keys, values, _mask, *, scaling=None, sight=None, sliding_window=None, **extra):
    """Attention over the slab: grouped query heads become extra rows of their key head, so keys are never copied."""
    for name in ("softcap", "s_aux"):
        if extra.get(name) is not None:
            raise ValueError(
                f"{type(module).__name__} needs {name}, which the slab attention does not do: take another model"
            )
    batch, heads, width, dim = query.shape
    shared = keys.shape[1]
    group = heads // shared
    query = query.reshape(batch, shared, group * width, dim)
    mask = sight.mask(group, sliding_window, query.device)
    out = scaled_dot_product_attention(query, keys, values, attn_mask=mask, scale=scaling)
    return out.reshape(batch, heads, width, values.shape[-1]).transpose(1, 2), None


AttentionInterface.register("slab", slab_attention)


@dataclass
class Forward:
    """logits [batch, read, vocab] of the rows asked for; features [batch, width, tapped] or None."""

    logits: Tensor
    features: Tensor | None

    def seen(self, b: int, rows) -> Tensor | None:
        """The features of some rows of one sequence, None when no layer was tapped."""
        return None if self.features is None else self.features[b, rows]


class LM:
    """Target and draft model alike: a transformers causal LM, its slab, and one forward for chains, trees and batches."""

    def __init__(self, model, rows: int = 1):
        self.model = model.eval()
        model.set_attn_implementation("slab")
        self.cache = SlabCache(rows)
        self.layers = model.get_decoder().layers
        self.passes = 0

    @property
    def device(self) -> torch.device:
        return self.model.get_input_embeddings().weight.device

    @property
    def vocabulary_size(self) -> int:
        return self.model.get_output_embeddings().weight.shape[0]

    @property
    def context(self) -> int:
        """Most tokens in one sequence."""
        return self.model.config.get_text_config().max_position_embeddings

    @torch.inference_mode()
    def forward(
        self,
        rows: list[int],
        tokens: list[Tensor],
        parents: list[Tensor | None] | None = None,
        read: str = "all",
        taps: tuple[int, ...] = (),
    ) -> Forward:
        """Run tokens[b] ([n_b] long) in scratch behind row rows[b]'s prefix; nothing is committed.

        parents[b] ([n_b] long, -1 = the prefix; None = a chain) makes a tree. read: which rows the head is applied to,
        "all", "last" (of each sequence) or "none". taps: decoder layers whose raw output comes back as features.
        """
        lengths = [len(t) for t in tokens]
        width, device = max(lengths), self.device
        extent = self.cache.aim(rows, width)
        ids = torch.stack([pad(t, (0, width - len(t))) for t in tokens])
        starts = [self.cache.length[row] for row in rows]
        parents = parents or [None] * len(rows)
        lineage = torch.stack([_lineage(p, n, width, device) for p, n in zip(parents, lengths, strict=True)])
        positions = torch.tensor(starts, device=device)[:, None] + lineage.sum(-1) - 1
        with self._tapped(taps) as seen:
            out = self.model(
                input_ids=ids,
                position_ids=positions,
                cache=self.cache,
                use_cache=True,
                logits_to_keep=_keep(read, lengths, device),
                sight=_sight(starts, lineage, positions, extent),
            )
        self.passes += 1
        features = torch.cat([seen[layer].to(device) for layer in taps], -1) if taps else None
        return Forward(out.logits, features)

    @contextmanager
    def _tapped(self, taps: tuple[int, ...]):
        """Collect the raw output of the tapped decoder layers during one forward."""
        seen: dict[int, Tensor] = {}

        def hook(layer):
            return lambda _module, _args, out: seen.update({layer: out[0] if isinstance(out, tuple) else out})

        handles = [self.layers[layer].register_forward_hook(hook(layer)) for layer in taps]
        try:
            yield seen
        finally:
            for handle in handles:
                handle.remove()


def _keep(read: str, lengths: list[int], device: torch.device) -> int | Tensor:
    """transformers' `logits_to_keep` for the rows to read."""
    if read == "all":
        return 0
    if read == "none":
        return torch.zeros(0, dtype=torch.long, device=device)
    # a number would slice, and the head on a slice of a batch copies its matrix for every row
    return 1 if len(lengths) == 1 else torch.tensor(lengths, device=device)[:, None] - 1


def _lineage(parents: Tensor | None, n: int, width: int, device: torch.device) -> Tensor:
    """[width, width] bool: row i marks node i and its ancestors; rows behind n (padding) mark themselves."""
    if parents is None:
        return torch.ones(width, width, dtype=torch.bool, device=device).tril_()
    line = torch.eye(width, device=device)
    child = (parents >= 0).nonzero()[:, 0]
    line[child, parents[child]] = 1
    for _ in range((n - 1).bit_length()):  # repeated squaring: paths of length 1, 2, 4, ...
        line = (line @ line).clamp_(max=1)
    return line.bool()


def _sight(starts: list[int], lineage: Tensor, positions: Tensor, extent: int) -> Sight:
    batch, width = positions.shape
    device = positions.device
    visible = torch.zeros(batch, 1, width, extent, dtype=torch.bool, device=device)
    key_positions = torch.arange(extent, device=device).repeat(batch, 1)
    for b, start in enumerate(starts):
        visible[b, :, :, :start] = True
        visible[b, 0, :, start : start + width] = lineage[b]
        key_positions[b, start : start + width] = positions[b]
    alone = batch == 1 and width == 1
    return Sight(None if alone else visible, positions, key_positions)
