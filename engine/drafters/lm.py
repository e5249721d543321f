"""A smaller language model guesses, token by token (Leviathan et al. 2022; Chen et al. 2023).

It keeps a slab of its own. Each time it is asked, it compares what it cached with the text as it stands, keeps the common
prefix and reads the rest: accepted, rejected and corrected tokens all come out right without a special case.

Where no smaller model of the family is at hand, `Pruned` makes one out of the target's first layers.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engine.drafters import chain
from engine.drafters.lesson import Batch, Words, as_ids, lesson, move, score, truth
from engine.model import LM, PREFILL
from engine.sampling import DRAFT, draw, uniforms, warp
from engine.types import Proposal, Sequence


class ModelDrafter:
    """Chain of k tokens drawn from the draft model's warped law. `vocabulary`: size of the target's, which q is laid out in.
    `words`: ids of the draft model's rows, where it has not all of them."""

    taps: tuple[int, ...] = ()
    sees = {"inputs": ["text", "guesses"]}

    def __init__(self, lm: LM, k: int = 4, vocabulary: int | None = None, words: Words | None = None):
        self.lm, self.k, self.words = lm, k, words
        self.vocabulary = vocabulary or (lm.vocabulary_size if words is None else len(words.place))
        self._cached: dict[int, tuple[int, int, Tensor]] = {}  # row: sequence id, length when drafted, drafted and read

    @property
    def passes(self) -> int:
        return self.lm.passes

    def observe(self, sequences, features):
        pass

    def propose(self, sequences: list[Sequence]) -> list[Proposal]:
        lengths = [min(self.k, s.room, self.lm.context - len(s.tokens)) for s in sequences]
        drafts = [_Draft(s, self._catch_up(s), n) for s, n in zip(sequences, lengths, strict=True) if n > 0]
        for i in range(max(lengths, default=0)):
            active = [d for d in drafts if d.length > i]
            rows = [d.sequence.row for d in active]
            out = self.lm.forward(rows, [d.feed for d in active], read="last")
            for d, row, logits in zip(active, rows, out.logits[:, 0], strict=True):
                self.lm.cache.commit(row, list(range(len(d.feed))))
                d.extend(self._align(logits))
        for d in drafts:
            read = torch.cat(d.tokens[:-1]) if len(d.tokens) > 1 else d.tokens[0][:0]
            self._cached[d.sequence.row] = (d.sequence.id, len(d.sequence.tokens), read)
        made = {d.sequence.id: d.proposal() for d in drafts}
        return [made.get(s.id) or self._none(s) for s in sequences]

    def _catch_up(self, sequence: Sequence) -> Tensor:
        """Forget what did not survive; read long new text in chunks; return the last stretch, still to be read."""
        row, tokens = sequence.row, sequence.tokens
        owner, base, drafted = self._cached.get(row, (None, 0, None))
        same = 0
        if owner == sequence.id:
            same = base + next(
                (i for i, (a, b) in enumerate(zip(drafted.tolist(), tokens[base:], strict=False)) if a != b),
                min(len(drafted), len(tokens) - base),
            )
        self.lm.cache.length[row] = min(same, len(tokens) - 1)
        while len(tokens) - self.lm.cache.length[row] > PREFILL:
            start = self.lm.cache.length[row]
            self.lm.forward([row], [self._tensor(tokens[start : start + PREFILL])], read="none")
            self.lm.cache.commit(row, list(range(PREFILL)))
        return self._tensor(tokens[self.lm.cache.length[row] :])

    def _tensor(self, tokens: list[int]) -> Tensor:
        return torch.tensor(tokens, device=self.lm.device)

    def _align(self, logits: Tensor) -> Tensor:
        """Lay the draft model's logits out in the target's vocabulary; ids that only one of them has cannot be drafted."""
        if self.words is not None:
            logits = self.words.spread(logits, -torch.inf)
        extra = self.vocabulary - logits.shape[-1]
        return torch.nn.functional.pad(logits, (0, extra), value=-torch.inf)  # a negative pad cuts

    def _none(self, sequence: Sequence) -> Proposal:
        return chain([], self.lm.device, note="last_token" if sequence.room == 0 else "draft_context")


class _Draft:
    """One sequence's guess as it grows."""

    def __init__(self, sequence: Sequence, feed: Tensor, length: int):
        self.sequence, self.feed, self.length = sequence, feed, length
        self.tokens: list[Tensor] = []
        self.q: list[Tensor] = []
        self.logits: list[Tensor] = []
        u = uniforms(sequence.sampling.seed, len(sequence.tokens), DRAFT, length)
        self.u = torch.tensor(u, dtype=torch.float64, device=feed.device)

    def extend(self, logits: Tensor) -> None:
        law = warp(logits, self.sequence.sampling)
        self.feed = draw(law, self.u[len(self.tokens)])[None]
        self.tokens.append(self.feed)
        self.q.append(law)
        self.logits.append(logits)

    def proposal(self) -> Proposal:
        story = [{"pass": i} for i in range(self.length)]
        return chain(torch.cat(self.tokens), q=torch.stack(self.q), logits=torch.stack(self.logits), story=story)


@dataclass(frozen=True)
class PrunedConfig:
    layers: int


class Pruned(nn.Module):
    """A draft model made out of the target: copies of its first layers, trained to say what the last one would have said.

    adapter, [hidden, hidden], leads from their normalised output to the target's final feature; embedding and output matrix
    are the target's own.
    """

    def __init__(self, target: nn.Module, config: PrunedConfig):
        super().__init__()
        self.config = config
        self.words: Words | None = None  # what it may guess; None = everything
        few = shape(target, config.layers)
        few._attn_implementation = "sdpa"  # until it drafts
        decoder = type(target)(few).get_decoder()
        decoder.embed_tokens, decoder.rotary_emb = None, target.get_decoder().rotary_emb
        self.decoder = decoder
        nn.init.ones_(decoder.norm.weight)
        hidden = target.config.get_text_config().hidden_size
        self.adapter = nn.Linear(hidden, hidden, bias=False)

    def forward(self, embed: nn.Module, tokens: Tensor) -> Tensor:
        """tokens [batch, length] -> what the output matrix reads, [batch, length, hidden]."""
        return self.adapter(self.decoder(inputs_embeds=embed(tokens), use_cache=False).last_hidden_state)

    def loss(self, embed: nn.Module, head: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy against the target's own law at every place before a token to be learnt (Hinton et al. 2015)."""
        taught = batch.own[:, 1:]
        logp = score(self(embed, batch.tokens)[:, :-1][taught], head, self.words).float().log_softmax(-1)
        total = None if batch.total is None else batch.total[:, :-1][taught]
        real = truth(head, batch.last[:, :-1][taught], total, self.words)
        return {"loss": -(real * logp).sum(-1).mean()}

    def agree(self, embed: nn.Module, head: nn.Module, batch: Batch, drafts: int = 7) -> tuple[Tensor, Tensor]:
        """Where the likeliest token is the text's, for chains behind the anchors, and where there was one to guess."""
        labels, taught = lesson(batch, drafts)
        guess = as_ids(score(self(embed, batch.tokens), head, self.words).argmax(-1), self.words)
        places = batch.anchors.clamp_min(0)[..., None] + torch.arange(drafts, device=labels.device)
        guess = guess.gather(1, places.clamp_max(guess.shape[1] - 1).flatten(1)).view_as(labels)
        return guess == labels, taught

    @torch.no_grad()
    def model(self, target: nn.Module) -> nn.Module:
        """An ordinary causal LM with these layers; the adapter is multiplied into its output matrix, of which only the rows of
        `words` are kept."""
        with torch.device("meta"):
            model = type(target)(self.decoder.config)  # the very object: the layers ask it how to attend
        theirs, ours, head = target.get_decoder(), model.get_decoder(), target.get_output_embeddings().weight
        head = head if self.words is None else head[self.words.ids]
        ours.embed_tokens, ours.rotary_emb = theirs.embed_tokens, theirs.rotary_emb
        ours.layers, ours.norm = self.decoder.layers, self.decoder.norm
        model.lm_head.weight = nn.Parameter((head.float() @ self.adapter.weight.float()).to(head.dtype))
        return model.requires_grad_(False).eval()


def shape(target: nn.Module, layers: int):
    """The target's config with fewer layers and an output matrix of its own."""
    config = copy.deepcopy(target.config)
    config.num_hidden_layers, config.tie_word_embeddings = layers, False
    config.layer_types = (getattr(config, "layer_types", None) or ["full_attention"] * layers)[:layers]
    return config


@torch.no_grad()
def begin_pruned(target: nn.Module, layers: int, texts: Iterable[Batch], ridge: float = 1e-2) -> Pruned:
    """Untrained: the target's own first layers, and the adapter by least squares over `texts` (a tuned lens; Belrose et al.
    2023)."""
    net = Pruned(target, PrunedConfig(layers))
    embed, decoder = target.get_input_embeddings(), target.get_decoder()
    move(net, embed.weight)
    for ours, theirs in zip(net.decoder.layers, decoder.layers, strict=False):
        ours.load_state_dict(theirs.state_dict())
    hidden = embed.weight.shape[1]
    gram, cross = torch.zeros(2, hidden, hidden, dtype=torch.float64, device=embed.weight.device)
    rows = 0
    for batch in texts:
        early = net.decoder(inputs_embeds=embed(batch.tokens), use_cache=False).last_hidden_state[batch.own]
        gram += early.double().T @ early.double()
        cross += early.double().T @ batch.last[batch.own].double()
        rows += len(early)
    gram += ridge * rows * torch.eye(hidden, dtype=torch.float64, device=gram.device)
    net.adapter.weight.copy_(torch.linalg.solve(gram, cross).T)
    return net
