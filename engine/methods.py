"""METHODS: from a name to a drafter. What a method needs beside the target is loaded once and kept with the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine import checkpoints
from engine.drafters import Drafter, NoDraft
from engine.drafters.dflash import DFlashDrafter
from engine.drafters.dspark import DSparkDrafter
from engine.drafters.lm import ModelDrafter
from engine.drafters.ngram import NgramDrafter
from engine.load import Loaded, load_model
from engine.model import LM
from engine.vocabulary import difference


class Unavailable(ValueError):
    """A method cannot run with this target; the message is the reason."""


@dataclass
class Target:
    """A loaded target on its slab, with the drafters' weights that were loaded for it."""

    loaded: Loaded
    rows: int = 1
    lm: LM = field(init=False)
    kept: dict[tuple[str, str | None], object] = field(default_factory=dict)

    def __post_init__(self):
        self.lm = LM(self.loaded.model, self.rows)

    def draft(self, name: str | None) -> tuple[LM, Loaded]:
        """The draft model at a path or hub id, or the stored one of this target; the pair is checked before use."""
        if ("lm", name) not in self.kept:
            loaded = self._pruned() if name is None else self._other(name)
            self.kept["lm", name] = LM(loaded.model, self.rows), loaded
        return self.kept["lm", name]

    def net(self, kind: str, name: str | None) -> Loaded:
        """A block drafter's net from a published checkpoint (a folder or hub id), or the stored one of this target."""
        if (kind, name) not in self.kept:
            loaded = self._stored(kind) if name is None else checkpoints.load(name, self.loaded)
            if (found := checkpoints.kind_of(loaded.model)) != kind:
                raise Unavailable(f"{name} holds a {found} drafter: choose method {found}")
            self.kept[kind, name] = loaded
        return self.kept[kind, name]

    def _stored(self, kind: str) -> Loaded:
        path = checkpoints.find(kind, self.loaded.hash)
        if path is None:
            raise Unavailable(
                f"{kind} has no weights for {self.loaded.name}: name a checkpoint with --draft, or train some with "
                f"python -m engine.training.train {kind}"
            )
        return checkpoints.restore(path, self.loaded)

    def _pruned(self) -> Loaded:
        stored = self._stored("lm")
        return replace(stored, model=stored.model.model(self.loaded.model))

    def _other(self, name: str) -> Loaded:
        loaded = load_model(name, dtype=self.loaded.dtype, device=self.loaded.device)
        ours, theirs = self.loaded.vocabulary, loaded.vocabulary
        if clash := difference(ours, theirs):
            raise Unavailable(f"{loaded.name} cannot draft for {self.loaded.name}: {clash}")
        if theirs.size < ours.size:
            raise Unavailable(
                f"{loaded.name} cannot draft for {self.loaded.name}: it knows {theirs.size} tokens of {ours.size}"
            )
        return loaded


@dataclass(frozen=True)
class Method:
    """knobs: name -> usual value. build(target, draft, **knobs) -> the drafter, and the model it runs (or None)."""

    knobs: dict[str, int | float | bool]
    build: Callable[..., tuple[Drafter, Loaded | None]]
    takes_draft: bool = True  # whether other weights can be named


def _plain(target: Target, draft: str | None):
    return NoDraft(), None


def _ngram(target: Target, draft: str | None, k: int, n: int):
    return NgramDrafter(k, n, device=target.lm.device), None


def _lm(target: Target, draft: str | None, k: int):
    lm, loaded = target.draft(draft)
    return ModelDrafter(lm, k, target.loaded.vocabulary.size), loaded


def _dflash(target: Target, draft: str | None, **knobs):
    loaded = target.net("dflash", draft)
    return DFlashDrafter(loaded.model, target.lm, vocabulary=target.loaded.vocabulary.size, **knobs), loaded


def _dspark(target: Target, draft: str | None, **knobs):
    loaded = target.net("dspark", draft)
    return DSparkDrafter(loaded.model, target.lm, vocabulary=target.loaded.vocabulary.size, **knobs), loaded


METHODS = {
    "plain": Method({}, _plain, takes_draft=False),
    "ngram": Method({"k": 8, "n": 4}, _ngram, takes_draft=False),
    "lm": Method({"k": 3}, _lm),
    "dflash": Method({"k": 7, "sampled": False, "threshold": 0.0}, _dflash),
    "dspark": Method({"k": 7, "markov": True, "confidence": True, "threshold": 0.0}, _dspark),
}
# k: drafted tokens a round; n: longest match of an n-gram; threshold: least confidence of a token that is sent; sampled: draw
# DFlash's tokens instead of taking the likeliest; markov, confidence: whether DSpark uses these heads.
KNOBS = {"k": (1, 64), "n": (1, 16), "threshold": (0.0, 1.0), "sampled": bool, "markov": bool, "confidence": bool}


def settle(method: str, draft: str | None = None, **given) -> dict[str, int | float | bool]:
    """The knobs in force; None stands for the usual value. ValueError for what does not exist or is not used."""
    if method not in METHODS:
        raise ValueError(f"method is {method!r}: choose one of {', '.join(METHODS)}")
    if draft is not None and not METHODS[method].takes_draft:
        takers = ", ".join(name for name, m in METHODS.items() if m.takes_draft)
        raise ValueError(f"other weights can be named for {takers}; {method} runs without any")
    usual = METHODS[method].knobs
    chosen = {name: value for name, value in given.items() if value is not None}
    for name, value in chosen.items():
        if name not in usual:
            raise ValueError(f"{name} is {value!r}, but {method} has no {name}: leave it out")
        _refuse_odd(name, value)
    return usual | chosen


def _refuse_odd(name: str, value) -> None:
    bounds = KNOBS[name]
    if bounds is bool:
        if not isinstance(value, bool):
            raise ValueError(f"{name} is {value!r}: give true or false")
        return
    least, most = bounds
    whole = isinstance(least, int)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not least <= value <= most:
        raise ValueError(f"{name} is {value!r}: give a {'whole ' if whole else ''}number from {least} to {most}")


def build_drafter(target: Target, method: str, draft: str | None = None, **knobs):
    """(drafter, loaded draft model or None, knobs in force); raises what `settle` raises, and Unavailable."""
    settled = settle(method, draft, **knobs)
    drafter, loaded = METHODS[method].build(target, draft, **settled)
    return drafter, loaded, settled


def stored(target_hash: str) -> dict[str, Path]:
    """The methods that need weights and have some for this target, with their files."""
    return {name: path for name in ("lm", "dflash", "dspark") if (path := checkpoints.find(name, target_hash))}
