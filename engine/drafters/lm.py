"""A smaller language model guesses, token by token (Leviathan et al. 2022; Chen et al. 2023).

It keeps a slab of its own. Each time it is asked, it compares what it cached with the text as it stands, keeps the common
prefix and reads the rest: accepted, rejected and corrected tokens all come out right without a special case.

Where no smaller model of the family is at hand, `pruned` makes one out of the target: its first layers, its embedding, and
a square matrix, fitted by least squares, that leads from what those layers know to what the last layer would have said
(a tuned lens; Belrose et al. 2023).
"""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn

from engine.drafters import chain
from engine.model import LM, PREFILL
from engine.sampling import DRAFT, draw, uniforms, warp
from engine.types import Proposal, Sequence


class ModelDrafter:
    """Chain of k tokens drawn from the draft model's warped law. `vocabulary`: size of the target's, which q is laid out in."""

    taps: tuple[int, ...] = ()

    def __init__(self, lm: LM, k: int = 4, vocabulary: int | None = None):
        self.lm, self.k, self.vocabulary = lm, k, vocabulary or lm.vocabulary_size
        self._cached: dict[int, tuple[int, int, Tensor]] = {}  # row: sequence id, length when drafted, drafted and read

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


ADAPTERS = Path(__file__).parents[2] / "assets" / "drafters"


def find_adapter(target_hash: str) -> Path | None:
    """The shipped adapter that was fitted for weights with this hash."""
    for path in sorted(ADAPTERS.glob("lm-*.safetensors")):
        with safe_open(path, "pt") as file:
            if file.metadata()["target_hash"] == target_hash:
                return path
    return None


def load_pruned(target, path: Path):
    """The draft model that an adapter file describes, sharing the target's own layers and embedding."""
    with safe_open(path, "pt") as file:
        return pruned(target, int(file.metadata()["layers"]), file.get_tensor("adapter"))


@torch.no_grad()
def pruned(target, layers: int, adapter: Tensor):
    """A causal LM of the target's first `layers` layers. adapter: [hidden, hidden], from the normalised output of the last
    of them to the target's final feature; it is multiplied into the head, so the result is an ordinary model."""
    config = copy.deepcopy(target.config)
    config.num_hidden_layers, config.tie_word_embeddings = layers, False
    config.layer_types = (getattr(config, "layer_types", None) or ["full_attention"] * layers)[:layers]
    with torch.device("meta"):
        model = type(target)(config)
    theirs, ours, head = target.get_decoder(), model.get_decoder(), target.get_output_embeddings().weight
    ours.embed_tokens, ours.rotary_emb = theirs.embed_tokens, theirs.rotary_emb
    ours.layers = nn.ModuleList(theirs.layers[:layers])
    ours.norm.weight = nn.Parameter(torch.ones_like(theirs.norm.weight))
    weight = (head.float() @ adapter.to(head.device).float()).to(head.dtype)
    model.lm_head.weight = nn.Parameter(weight)
    return model.requires_grad_(False).eval()
