"""Run the target over chats once and keep what its drafters read: the tapped layers and the normalised last state.

    python -m engine.training.harvest --corpus chats --out features

Training passes over the same text many times; the target's part of it never changes. A shard of features belongs to a run of
chats of the corpus. A run that was stopped goes on with the first shard that is missing.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from engine.drafters.block import spread
from engine.load import Loaded, load_model
from engine.model import LM
from engine.training.corpus import Corpus, NoCorpus, keep_label, read
from engine.training.progress import Progress, stopping

SHARD = 32  # chats in a file
BATCH = 8  # chats in one forward
KEYS = ("taps", "last", "total")
KEPT = torch.bfloat16  # residual streams outgrow float16


@dataclass(frozen=True)
class Features:
    """A folder of shards: for every chat of a corpus taps [length, taps * hidden], last [length, hidden], total [length]."""

    folder: Path
    taps: tuple[int, ...]

    def get(self, chats: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        """taps [n, length, taps * hidden], last [n, length, hidden] and total [n, length] of some chats, as in Batch."""
        parts: list[tuple[Tensor, ...]] = []
        for chat in chats:
            with safe_open(self.folder / name(chat // SHARD), "pt") as shard:
                at = chat % SHARD
                parts.append(tuple(shard.get_slice(key)[at : at + 1] for key in KEYS))
        taps, last, total = (torch.cat(column) for column in zip(*parts, strict=True))
        return taps, last, total


def name(shard: int) -> str:
    return f"features_{shard:05}.safetensors"


@torch.inference_mode()
def harvest(
    loaded: Loaded,
    corpus: Corpus,
    out: Path,
    taps: tuple[int, ...],
    progress: Callable[[float], None] = lambda share: None,
) -> Features:
    """Write the features of a corpus into `out`. A folder that holds another corpus, target or taps is refused."""
    out.mkdir(parents=True, exist_ok=True)
    shards = range(-(-len(corpus) // SHARD))
    missing = [n for n in shards if not (out / name(n)).exists()]
    config, length = loaded.model.config.get_text_config(), corpus.tokens.shape[1]
    needed = len(missing) * SHARD * length * (len(taps) + 1) * config.hidden_size * KEPT.itemsize
    if needed > (free := shutil.disk_usage(out).free):
        raise OSError(f"the features need {needed / 1e9:.1f} GB, {out} has {free / 1e9:.1f} GB free: read fewer chats")
    facts = {"corpus": corpus.hash, "target": loaded.hash, "taps": list(taps), "dtype": loaded.dtype}
    keep_label(out / "features.json", facts)
    depth, head = config.num_hidden_layers - 1, loaded.model.get_output_embeddings()
    lm, norm = LM(loaded.model, BATCH), loaded.model.get_decoder().norm
    for number in missing:
        parts = []
        for start in range(number * SHARD, min((number + 1) * SHARD, len(corpus)), BATCH):
            tokens = torch.from_numpy(corpus.tokens[start : start + BATCH].astype("int64")).to(lm.device)
            seen = lm.forward(list(range(len(tokens))), list(tokens), read="none", taps=(*taps, depth)).features
            tapped, last = seen.split([len(taps) * config.hidden_size, config.hidden_size], -1)
            last = norm(last)
            total = torch.stack(
                [head(chat).float().logsumexp(-1) for chat in last]
            )  # a chat at a time: logits are large
            parts.append((tapped.to(KEPT).cpu(), last.to(KEPT).cpu(), total.cpu()))
            progress(min(1.0, (start + len(tokens)) / len(corpus)))
        whole = {
            key: torch.cat(column).contiguous() for key, column in zip(KEYS, zip(*parts, strict=True), strict=True)
        }
        if not all(tensor.isfinite().all() for tensor in whole.values()):
            raise NoCorpus(f"the target's features of chats {number * SHARD} to {start + BATCH - 1} are not finite")
        half = out / f"{name(number)}.partial"
        try:
            save_file(whole, half)
            half.rename(out / name(number))
        finally:
            half.unlink(missing_ok=True)
    return Features(out, taps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, nargs="+", required=True, help="shards of chats, or folders of them")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--target", default=None, help="folder or hub id (default: the small default target)")
    parser.add_argument("--taps", type=int, nargs="+", help="layers to keep (default: five, evenly spread)")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    with stopping():
        loaded = load_model(args.target, dtype=args.dtype, device=args.device)
        corpus = read(args.corpus, loaded.vocabulary.size)
        taps = tuple(args.taps or spread(loaded.model.config.get_text_config().num_hidden_layers, 5))
        with Progress("reading chats") as progress:
            harvest(loaded, corpus, args.out, taps, progress)


if __name__ == "__main__":
    main()
