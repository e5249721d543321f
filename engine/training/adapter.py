"""Fit the adapter of a pruned draft model: least squares from an early layer to the target's final feature.

    python -m engine.training.adapter --corpus chats.npz --layers 2 --out assets/drafters/lm-NAME.safetensors

The corpus is an .npz with `tokens` [n, length] and `role` [n, length] (0 = template, not the model's own words). No gradient
steps: the normal equations are summed over the corpus in one pass, then solved once (ridge regression).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from engine.load import load_model

HELD_OUT = 64  # sequences at the end of the corpus that the fit never sees


@torch.inference_mode()
def features(model, tokens: torch.Tensor, layers: int) -> tuple[torch.Tensor, torch.Tensor]:
    """tokens [batch, length] -> normalised output of layer `layers` - 1 and the final feature, [batch, length, hidden]."""
    decoder, seen = model.get_decoder(), []
    handle = decoder.layers[layers - 1].register_forward_hook(
        lambda _m, _i, out: seen.append(out[0] if isinstance(out, tuple) else out)
    )
    try:
        final = decoder(tokens, use_cache=False).last_hidden_state
    finally:
        handle.remove()
    early = seen[0].float()
    norm = decoder.norm
    eps = getattr(norm, "variance_epsilon", None) or norm.eps
    return early * torch.rsqrt(early.pow(2).mean(-1, keepdim=True) + eps), final.float()


def fit(
    model, tokens: np.ndarray, role: np.ndarray, layers: int, ridge: float = 1e-2, batch: int = 8, say=lambda _: None
):
    """The adapter [hidden, hidden]: minimises |early @ A.T - final|^2 + ridge over the model's own words."""
    hidden = model.config.hidden_size
    gram, cross = torch.zeros(hidden, hidden, dtype=torch.float64), torch.zeros(hidden, hidden, dtype=torch.float64)
    rows = 0
    for start in range(0, len(tokens), batch):
        chunk = torch.from_numpy(tokens[start : start + batch].astype(np.int64)).to(model.device)
        early, final = features(model, chunk, layers)
        own = torch.from_numpy(role[start : start + batch] > 0).to(model.device)
        x, y = early[own].double().cpu(), final[own].double().cpu()
        gram += x.T @ x
        cross += x.T @ y
        rows += len(x)
        say(f"read {start + len(chunk)} of {len(tokens)} sequences")
    gram += ridge * rows * torch.eye(hidden, dtype=torch.float64)
    return torch.linalg.solve(gram, cross).T.float(), rows


@torch.inference_mode()
def agreement(model, adapter: torch.Tensor, tokens: np.ndarray, role: np.ndarray, layers: int) -> float:
    """Share of held-out positions where the adapted early layer and the target name the same token."""
    head, same, total = model.get_output_embeddings(), 0, 0
    for row, mine in zip(tokens, role, strict=True):
        early, final = features(model, torch.from_numpy(row[None].astype(np.int64)).to(model.device), layers)
        own = torch.from_numpy(mine > 1).to(model.device)
        guess = head((early[0, own] @ adapter.T.to(early)).to(model.dtype)).argmax(-1)
        same += int((guess == head(final[0, own].to(model.dtype)).argmax(-1)).sum())
        total += int(own.sum())
    return same / total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--target", default=None)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--sequences", type=int, default=256, help="how many to read from the corpus")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    loaded = load_model(args.target, dtype="float32")
    with np.load(args.corpus) as corpus:
        tokens, role = corpus["tokens"], corpus["role"]
    train = slice(0, min(args.sequences, len(tokens) - HELD_OUT))
    adapter, rows = fit(loaded.model, tokens[train], role[train], args.layers, say=lambda text: print(text, end="\r"))
    held = agreement(loaded.model, adapter, tokens[-HELD_OUT:][:16], role[-HELD_OUT:][:16], args.layers)
    print(f"\n{rows} positions read; held-out agreement of argmax {held:.3f}")
    facts = {
        "layers": str(args.layers), "target": loaded.name, "target_hash": loaded.hash, "positions": str(rows),
        "agreement": f"{held:.4f}", "ridge": "0.01", "torch": torch.__version__,
    }  # fmt: skip
    args.out.parent.mkdir(parents=True, exist_ok=True)
    save_file({"adapter": adapter.half().contiguous()}, args.out, metadata=facts)


if __name__ == "__main__":
    main()
