"""What block drafters share: a small transformer that fills a block of masks in one pass, guided by the target's features.

The raw outputs of a few tapped target layers are fused into one vector per token, and every layer of the drafter makes
keys and values of it: context that costs no query and no MLP, and that does not depend on other tokens, so it can be added
in any portions. The block is the anchor's embedding followed by mask embeddings. All its slots see the whole context and
each other, and the target's own output matrix reads them.

Two layouts exist. In the first a slot guesses the token at its own position and the anchor's slot is not read; in the
other every slot guesses the token behind its position, so the anchor's slot makes the first guess. Parameters carry the
names of the published checkpoints.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, silu

from engine.cache import SlabCache
from engine.drafters import chain
from engine.drafters.lesson import Batch, Words, as_ids, lesson, score
from engine.model import LM, Sight, slab_attention
from engine.sampling import DRAFT, uniforms
from engine.types import Proposal, Sequence


@dataclass(frozen=True)
class BlockConfig:
    """Shape of a block drafter. `block` counts its input slots, the anchor's included."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    key_heads: int
    head_dim: int
    vocabulary: int  # rows of the target's embedding
    target_layers: int
    taps: tuple[int, ...]  # in the order in which `fc` reads them
    block: int
    mask: int  # the id whose embedding stands where a token is wanted
    anchor_guesses: bool  # which of the two layouts
    eps: float = 1e-6
    theta: float = 10_000.0  # base of the rotary positions
    context: int = 2048  # most positions

    @property
    def drafts(self) -> int:
        """Tokens guessed by one block."""
        return self.block if self.anchor_guesses else self.block - 1


def spread(layers: int, taps: int) -> tuple[int, ...]:
    """The usual choice of taps: evenly from the second layer to the third last (Chen et al. 2026); halves round to even."""
    return (layers // 2,) if taps == 1 else tuple(round(1 + i * (layers - 4) / (taps - 1)) for i in range(taps))


class Attention(nn.Module):
    """Grouped-query attention with normalised queries and keys, as in Qwen3."""

    def __init__(self, config: BlockConfig, index: int):
        super().__init__()
        self.index, self.dim = index, config.head_dim
        inner, shared = config.heads * config.head_dim, config.key_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden, inner, bias=False)
        self.k_proj = nn.Linear(config.hidden, shared, bias=False)
        self.v_proj = nn.Linear(config.hidden, shared, bias=False)
        self.o_proj = nn.Linear(inner, config.hidden, bias=False)
        self.q_norm = nn.RMSNorm(config.head_dim, config.eps)
        self.k_norm = nn.RMSNorm(config.head_dim, config.eps)

    def keys_values(self, x: Tensor, angles: Tensor) -> tuple[Tensor, Tensor]:
        """x [batch, n, hidden] -> normalised, rotated keys and plain values, each [batch, key heads, n, dim]."""
        return rotate(self.k_norm(self._heads(self.k_proj(x))), angles), self._heads(self.v_proj(x))

    def forward(self, x: Tensor, angles: Tensor, attend) -> Tensor:
        queries = rotate(self.q_norm(self._heads(self.q_proj(x))), angles)
        return self.o_proj(attend(self, queries, *self.keys_values(x, angles)).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.dim)).transpose(1, 2)


class MLP(nn.Module):
    def __init__(self, config: BlockConfig):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.up_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.down_proj = nn.Linear(config.intermediate, config.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config: BlockConfig, index: int):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden, config.eps)
        self.self_attn = Attention(config, index)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden, config.eps)
        self.mlp = MLP(config)

    def forward(self, x: Tensor, angles: Tensor, attend) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), angles, attend)
        return x + self.mlp(self.post_attention_layernorm(x))


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Rotary positions on x [batch, heads, n, dim]: dimension i turns with dimension i + dim/2 by angles [batch, n, dim/2]."""
    cos, sin = (f(angles)[:, None].to(x.dtype) for f in (torch.cos, torch.sin))
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def blockwise_attention(queries: Tensor, far: tuple[Tensor, Tensor], near: list[Tensor], later: Tensor) -> Tensor:
    """Many blocks over one context, each seeing what lies before its anchor and itself.

    queries [batch, heads, blocks * width, dim]; keys and values far [batch, key heads, length, dim] and near [batch, key
    heads, blocks, width, dim]; later [batch, blocks, length] hides -> [batch, blocks * width, heads, dim].
    """
    (keys, values), (own_keys, own_values) = far, near
    (batch, shared, blocks, width, dim), length = own_keys.shape, keys.shape[2]
    queries = queries.reshape(batch, shared, -1, blocks, width, dim) * dim**-0.5
    scores = (queries.flatten(2, 4) @ keys.mT).view(*queries.shape[:-1], length)
    scores = scores.masked_fill(later[:, None, None, :, None], -torch.inf)
    weights = torch.cat([scores, queries @ own_keys[:, :, None].mT], -1).softmax(-1)
    there, here = weights.split([length, width], -1)
    out = (there.flatten(2, 4) @ values).view_as(queries) + here @ own_values[:, :, None]
    return out.reshape(batch, -1, blocks * width, dim).transpose(1, 2)


class Backbone(nn.Module):
    """The parallel part of a block drafter. It owns neither embedding nor output matrix: they are the target's."""

    def __init__(self, config: BlockConfig):
        super().__init__()
        self.config = config
        self.words: Words | None = None  # what it may guess; None = everything
        self.fc = nn.Linear(len(config.taps) * config.hidden, config.hidden, bias=False)
        self.hidden_norm = nn.RMSNorm(config.hidden, config.eps)
        self.layers = nn.ModuleList(Layer(config, i) for i in range(config.layers))
        self.norm = nn.RMSNorm(config.hidden, config.eps)

    def context(self, features: Tensor, positions: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Features [batch, n, taps * hidden] at positions [batch, n] -> keys and values for every layer."""
        fused, angles = self.hidden_norm(self.fc(features)), self._angles(positions)
        return [layer.self_attn.keys_values(fused, angles) for layer in self.layers]

    def forward(self, x: Tensor, positions: Tensor, attend) -> Tensor:
        """x [batch, width, hidden] -> the same shape. attend(module, queries, keys, values) joins the block's own keys and
        values, [batch, key heads, width, dim], with the context's and gives [batch, width, heads, dim]."""
        angles = self._angles(positions)
        for layer in self.layers:
            x = layer(x, angles, attend)
        return self.norm(x)

    def _angles(self, positions: Tensor) -> Tensor:
        wide = torch.float64 if self.fc.weight.dtype == torch.float64 else torch.float32
        steps = torch.arange(0, self.config.head_dim, 2, dtype=wide, device=positions.device)
        return positions[..., None] / self.config.theta ** (steps / self.config.head_dim)

    def ids(self, anchors: Tensor, width: int) -> Tensor:
        """Anchor tokens [...] -> input ids of blocks [..., width]."""
        return torch.cat([anchors[..., None], anchors.new_full((*anchors.shape, width - 1), self.config.mask)], -1)

    def guesses(self, hidden: Tensor) -> Tensor:
        """Of a block's slots [..., width, hidden] those that guess a token."""
        # contiguous: a matrix product over a slice of a batch would copy the output matrix for every row
        return hidden if self.config.anchor_guesses else hidden[..., 1:, :].contiguous()

    def over_text(self, embed: nn.Module, batch: Batch) -> Tensor:
        """Hidden states [batch, blocks, drafts, hidden] of blocks anchored all over a text, each as when drafting there.

        A block sees the features before its anchor, never the anchor's own: that one already knows the next token.
        """
        tokens, blocks, width = batch.tokens, batch.anchors.shape[1], self.config.block
        rows, length = tokens.shape
        anchors, slots = batch.anchors.clamp_min(0), torch.arange(width, device=tokens.device)
        positions = (anchors[..., None] + slots).flatten(1)
        later = torch.arange(length, device=tokens.device) >= anchors[..., None]
        context = self.context(batch.features, torch.arange(length, device=tokens.device).expand(rows, -1))

        def attend(module, queries, keys, values):
            far, near = context[module.index], [x.unflatten(2, (blocks, width)) for x in (keys, values)]
            return blockwise_attention(queries, far, near, later)

        x = embed(self.ids(tokens.gather(1, anchors), width).flatten(1))
        return self.guesses(self(x, positions, attend).unflatten(1, (blocks, width)))

    def law(self, embed: nn.Module, head: nn.Module, batch: Batch) -> Law:
        """The blocks' logits along the text."""
        hidden = self.over_text(embed, batch)
        labels, taught = lesson(batch, self.config.drafts)
        before = torch.cat([batch.tokens.gather(1, batch.anchors.clamp_min(0))[..., None], labels[..., :-1]], -1)
        return Law(hidden, before, score(hidden, head, self.words), labels, taught)

    def agree(self, embed: nn.Module, head: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """Where the likeliest token is the text's, [batch, blocks, drafts], and where there was one to guess."""
        law = self.law(embed, head, batch)
        return as_ids(law.logits.argmax(-1), self.words) == law.labels, law.taught


@dataclass(frozen=True)
class Law:
    """Blocks along a text: hidden, token before [.., drafts], logits [.., drafts, words], labels, and which are taught."""

    hidden: Tensor
    before: Tensor
    logits: Tensor
    labels: Tensor
    taught: Tensor


class BlockDrafter:
    """Keeps the context of every row in a slab of its own, runs the block, cuts the chain where confidence runs out.

    threshold: the chain ends before the first token whose confidence, known before the token is drawn, lies below it.
    vocabulary: how many ids the tokenizer has, where the target's matrices are padded.
    """

    def __init__(
        self, net: Backbone, target: LM, k: int | None = None, threshold: float = 0.0, vocabulary: int | None = None
    ):
        most = net.config.drafts
        if k is not None and not 1 <= k <= most:
            raise ValueError(f"k is {k}: this drafter guesses 1 to {most} tokens at once")
        self.net, self.k, self.threshold = net.eval(), k or most, threshold
        self.taps = net.config.taps
        self.vocabulary = vocabulary or target.vocabulary_size
        self.embed, self.head = target.model.get_input_embeddings(), target.model.get_output_embeddings()
        self.matrix = self.head.weight[: self.vocabulary] if net.words is None else self.head.weight[net.words.ids]
        self.slab = SlabCache(len(target.cache.length))
        self._owner: dict[int, int] = {}  # row: the sequence it serves
        self.passes = 0

    @property
    def sees(self) -> dict:
        config = self.net.config
        return {
            "inputs": ["features", "anchor", "masks"],
            "slots": config.block,
            "anchor_guesses": config.anchor_guesses,
        }

    @torch.inference_mode()
    def observe(self, sequences: list[Sequence], features: list[Tensor]) -> None:
        """Add the context of the tokens that were committed last. Only what the target computed ever enters."""
        for s in sequences:
            if self._owner.get(s.row) != s.id:
                self._owner[s.row], self.slab.length[s.row] = s.id, 0
        rows, width = [s.row for s in sequences], max(map(len, features))
        positions = self._positions(rows, width)
        fresh = torch.stack([pad(f, (0, 0, 0, width - len(f))) for f in features])
        self.slab.aim(rows, width)
        for layer, (keys, values) in enumerate(self.net.context(fresh, positions)):
            self.slab.update(keys, values, layer)
        for row, seen in zip(rows, features, strict=True):
            self.slab.commit(row, list(range(len(seen))))

    @torch.inference_mode()
    def propose(self, sequences: list[Sequence]) -> list[Proposal]:
        active = [s for s in sequences if self._room(s) > 0]
        made = dict(zip([s.id for s in active], self._draft(active) if active else [], strict=True))
        return [made[s.id] if s.id in made else self._none(s) for s in sequences]

    def guess(self, sequences: list[Sequence], hidden: Tensor) -> dict[str, Tensor]:
        """From hidden [batch, k, hidden] to the fields of a Proposal, each [batch, k, ...]: tokens, logits, confidence, ...
        Tokens are ids; whatever ends in a vocabulary is laid out in the drafter's own."""
        raise NotImplementedError

    def likeliest(self, logits: Tensor) -> Tensor:
        """Probability of the likeliest token, [..., vocab] -> [...]: a confidence that looks at no draw."""
        return (logits.amax(-1).float() - logits.float().logsumexp(-1)).exp()

    def ids(self, places: Tensor) -> Tensor:
        """Places in the drafter's own vocabulary as ids."""
        return as_ids(places, self.net.words)

    def anchors(self, sequences: list[Sequence]) -> Tensor:
        """Last committed tokens, [batch]."""
        return torch.tensor([s.tokens[-1] for s in sequences], device=self.device)

    def uniforms(self, sequences: list[Sequence]) -> Tensor:
        """The round's draws, [batch, k]."""
        u = [uniforms(s.sampling.seed, len(s.tokens), DRAFT, self.k) for s in sequences]
        return torch.tensor(u, dtype=torch.float64, device=self.device)

    @property
    def device(self) -> torch.device:
        return self.embed.weight.device

    def _draft(self, sequences: list[Sequence]) -> list[Proposal]:
        fields = self.guess(sequences, self._hidden(sequences))
        if self.net.words is not None:
            blank = {"logits": -torch.inf, "base": -torch.inf, "q": 0.0}
            fields |= {
                n: self.net.words.spread(fields[n], x)[..., : self.vocabulary] for n, x in blank.items() if n in fields
            }
        limits = [self._room(s) for s in sequences]
        if self.threshold:
            sure = (fields["confidence"] >= self.threshold).long().cumprod(-1).sum(-1)
            limits = [min(pair) for pair in zip(limits, sure.tolist(), strict=True)]
        proposals = []
        for b, n in enumerate(limits):
            cut = {name: field[b, :n] for name, field in fields.items()}
            note = "" if n else "low_confidence"
            proposals.append(chain(**cut, device=self.device, story=[{"pass": 0}] * n, note=note))
        return proposals

    def _hidden(self, sequences: list[Sequence]) -> Tensor:
        """Run one block behind every row's context: [batch, k, hidden]. Its keys and values stay scratch.

        The block always has the width it was trained with, whatever k: its slots see each other.
        """
        rows = [s.row for s in sequences]
        assert all(self.slab.length[s.row] == len(s.tokens) - 1 for s in sequences)
        width = self.net.config.block
        positions, extent = self._positions(rows, width), self.slab.aim(rows, width)
        visible = torch.arange(extent, device=self.device) <= positions[:, -1:]
        sight = Sight(None if len(rows) == 1 else visible[:, None, None].expand(-1, 1, width, -1))
        x = self.embed(self.net.ids(self.anchors(sequences), width))

        def attend(module, queries, keys, values):
            seen = self.slab.update(keys, values, module.index)
            return slab_attention(module, queries, *seen, None, sight=sight)[0]

        self.passes += 1
        return self.net.guesses(self.net(x, positions, attend))[:, : self.k].contiguous()

    def _positions(self, rows: list[int], width: int) -> Tensor:
        starts = torch.tensor([self.slab.length[row] for row in rows], device=self.device)
        return starts[:, None] + torch.arange(width, device=self.device)

    def _room(self, sequence: Sequence) -> int:
        return min(self.k, sequence.room, self.net.config.context - len(sequence.tokens))

    def _none(self, sequence: Sequence) -> Proposal:
        return chain([], self.device, note="last_token" if sequence.room == 0 else "draft_context")
