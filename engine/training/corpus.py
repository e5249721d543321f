"""Chats as token ids: what drafters are trained on. A corpus is a folder of .npz shards, or some of them.

tokens [n, length] from position 0, role [n, length]: who wrote each token, temperature [n]: that of the answers. Only what
the target wrote itself is learnt from; templates and given words are context.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FORCED, USER, ANSWER = 0, 1, 2  # roles: given by us; the target as the user; the target as itself
LENGTH = 512  # tokens in a chat


class NoCorpus(ValueError):
    """There is nothing to train on where it was looked for; the message says what was found."""


@dataclass
class Corpus:
    tokens: np.ndarray
    role: np.ndarray
    temperature: np.ndarray

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, chosen) -> Corpus:
        return Corpus(self.tokens[chosen], self.role[chosen], self.temperature[chosen])

    @property
    def hash(self) -> str:
        """Names the data beside weights that were trained on it."""
        digest = hashlib.sha256()
        for array in (self.tokens.astype("<u4"), self.role):
            digest.update(np.ascontiguousarray(array))
        return digest.hexdigest()[:16]

    def write(self, path: Path) -> None:
        """Put a shard in place in one move: a reader never sees half of it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(".partial")
        try:
            with half.open("wb") as file:
                np.savez_compressed(file, tokens=self.tokens, role=self.role, temperature=self.temperature)
            os.replace(half, path)
        finally:
            half.unlink(missing_ok=True)


def keep_label(path: Path, facts: dict) -> None:
    """Say beside a folder's shards what they were made from; refuse a folder whose label says something else."""
    if path.exists():
        found = json.loads(path.read_text())
        if found != facts:
            odd = ", ".join(
                f"{name} {found.get(name)}, now {facts[name]}" for name in facts if found.get(name) != facts[name]
            )
            raise NoCorpus(f"{path.parent} holds something else ({odd}): give another folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(facts))


def read(sources: Iterable[Path], vocabulary: int) -> Corpus:
    """All chats of some shards or folders of shards, in the order of their names; they must share one length.

    Raises NoCorpus where there are none, and for ids that the target does not have: that corpus is another tokenizer's.
    """
    paths = []
    for source in map(Path, sources):
        found = sorted(source.glob("*.npz")) if source.is_dir() else [source] if source.is_file() else []
        if not found:
            raise NoCorpus(f"{source} holds no chats. Give .npz files or a folder of them: engine.training.synthesize")
        paths += found
    parts = []
    for path in paths:
        with np.load(path) as shard:
            if missing := {"tokens", "role", "temperature"} - set(shard.files):
                raise NoCorpus(f"{path} has no {', '.join(sorted(missing))}: it is not a shard of chats")
            parts.append(Corpus(shard["tokens"].astype(np.int32), shard["role"], shard["temperature"]))
    if len(lengths := {part.tokens.shape[1] for part in parts}) != 1:
        raise NoCorpus(f"chats of {' and '.join(map(str, sorted(lengths)))} tokens do not go together")
    whole = Corpus(*(np.concatenate([getattr(p, name) for p in parts]) for name in ("tokens", "role", "temperature")))
    if (most := int(whole.tokens.max())) >= vocabulary:
        raise NoCorpus(f"the chats hold id {most}, the target knows {vocabulary}: they were written by another model")
    return whole
