"""METHODS: from a name to a drafter. What a method needs beside the target is loaded once and kept with the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine import checkpoints
from engine.drafters import Drafter, NoDraft
from engine.drafters.dflash import DFlashDrafter
from engine.drafters.dspark import DSparkDrafter
from engine.drafters.lesson import Words
from engine.drafters.lm import ModelDrafter
from engine.drafters.ngram import NgramDrafter
from engine.load import Loaded, load_model
from engine.model import LM
from engine.vocabulary import difference

STORED = ".safetensors"


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

    def draft(self, name: str | None) -> tuple[LM, Loaded, Words | None]:
        """The draft model at a path or hub id, or the stored one of this target, and which ids it has rows for."""
        if ("lm", name) not in self.kept:
            if name is None or Path(name).suffix == STORED:
                net = self.net("lm", name)
                loaded, words = replace(net, model=net.model.model(self.loaded.model)), net.model.words
            else:
                loaded, words = self._other(name), None
            self.kept["lm", name] = LM(loaded.model, self.rows), loaded, words
        return self.kept["lm", name]

    def net(self, kind: str, name: str | None) -> Loaded:
        """A drafter's net: the stored one of this target, a file of engine.training, or a published checkpoint."""
        if (kind, name) not in self.kept:
            if name is None:
                loaded = self._stored(kind)
            elif Path(name).suffix == STORED:
                loaded = checkpoints.restore(Path(name), self.loaded)
            else:
                loaded = checkpoints.load(name, self.loaded)
            if (found := checkpoints.kind_of(loaded.model)) != kind:
                raise Unavailable(f"{name} holds a {found} drafter: choose method {found}")
            self.kept[kind, name] = loaded
        return self.kept[kind, name]

    def _stored(self, kind: str) -> Loaded:
        path = checkpoints.find(kind, self.loaded.hash)
        if path is None:
            raise Unavailable(
                f"{kind} has no weights for {self.loaded.name}: name some with --draft, or train them with "
                f"python -m engine.training --methods {kind}"
            )
        return checkpoints.restore(path, self.loaded)

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
    """knobs: name -> usual value (None: what the weights were made for). build(target, draft, **knobs) -> the drafter, and the
    model it runs (or None)."""

    knobs: dict[str, int | float | bool | None]
    build: Callable[..., tuple[Drafter, Loaded | None]]
    takes_draft: bool = True  # whether other weights can be named


def _plain(target: Target, draft: str | None):
    return NoDraft(), None


def _ngram(target: Target, draft: str | None, k: int, n: int):
    return NgramDrafter(k, n, device=target.lm.device), None


def _lm(target: Target, draft: str | None, k: int):
    lm, loaded, words = target.draft(draft)
    return ModelDrafter(lm, k, target.loaded.vocabulary.size, words), loaded


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
    "dflash": Method({"k": None, "sampled": False, "threshold": 0.0}, _dflash),
    "dspark": Method({"k": None, "markov": True, "confidence": True, "threshold": 0.0}, _dspark),
}
# k: drafted tokens a round; n: longest match of an n-gram; threshold: least confidence of a token that is sent; sampled: draw
# DFlash's tokens instead of taking the likeliest; markov, confidence: whether DSpark uses these heads.
KNOBS = {"k": (1, 64), "n": (1, 16), "threshold": (0.0, 1.0), "sampled": bool, "markov": bool, "confidence": bool}


def settle(method: str, draft: str | None = None, **given) -> dict[str, int | float | bool | None]:
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
    return drafter, loaded, settled | ({"k": drafter.k} if "k" in settled else {})
