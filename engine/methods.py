"""METHODS: from a name to a drafter. What a method needs beside the target is loaded once and kept with the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from engine.drafters import Drafter, NoDraft
from engine.drafters.lm import ModelDrafter, find_adapter, load_pruned
from engine.drafters.ngram import NgramDrafter
from engine.load import Loaded, load_model
from engine.model import LM
from engine.vocabulary import difference


class Unavailable(ValueError):
    """A method cannot run with this target; the message is the reason."""


@dataclass
class Target:
    """A loaded target on its slab, with the draft models that were loaded for it."""

    loaded: Loaded
    rows: int = 1
    lm: LM = field(init=False)
    drafts: dict[str | None, tuple[LM, Loaded]] = field(default_factory=dict)

    def __post_init__(self):
        self.lm = LM(self.loaded.model, self.rows)

    def draft(self, name: str | None) -> tuple[LM, Loaded]:
        """The draft model at a path or hub id, or the default one of this target; the pair is checked before use."""
        if name not in self.drafts:
            loaded = self._load_draft(name)
            ours, theirs = self.loaded.vocabulary, loaded.vocabulary
            if clash := difference(ours, theirs):
                raise Unavailable(f"{loaded.name} cannot draft for {self.loaded.name}: {clash}")
            if theirs.size < ours.size:
                raise Unavailable(
                    f"{loaded.name} cannot draft for {self.loaded.name}: it knows {theirs.size} tokens of {ours.size}"
                )
            self.drafts[name] = LM(loaded.model, self.rows), loaded
        return self.drafts[name]

    def _load_draft(self, name: str | None) -> Loaded:
        if name is not None:
            return load_model(name, dtype=self.loaded.dtype, device=self.loaded.device)
        adapter = find_adapter(self.loaded.hash)
        if adapter is None:
            raise Unavailable(
                f"lm has no draft model for {self.loaded.name}: name a smaller one of its family with --draft"
            )
        model = load_pruned(self.loaded.model, adapter)
        words = f"first {model.config.num_hidden_layers} layers of {self.loaded.name}, least-squares adapter"
        return replace(self.loaded, model=model, name=f"{self.loaded.name}, pruned", weights=words)


@dataclass(frozen=True)
class Method:
    """knobs: name -> usual value. build(target, draft, **knobs) -> the drafter, and the draft model it runs (or None)."""

    knobs: dict[str, int]
    build: Callable[..., tuple[Drafter, Loaded | None]]


def _plain(target: Target, draft: str | None):
    return NoDraft(), None


def _ngram(target: Target, draft: str | None, k: int, n: int):
    return NgramDrafter(k, n, device=target.lm.device), None


def _lm(target: Target, draft: str | None, k: int):
    lm, loaded = target.draft(draft)
    return ModelDrafter(lm, k, target.loaded.vocabulary.size), loaded


METHODS = {"plain": Method({}, _plain), "ngram": Method({"k": 8, "n": 4}, _ngram), "lm": Method({"k": 3}, _lm)}
KNOBS = {"k": (1, 64), "n": (1, 16)}  # drafted tokens a round; longest match of an n-gram: least and most


def settle(method: str, draft: str | None = None, **given: int | None) -> dict[str, int]:
    """The knobs in force; None stands for the usual value. ValueError for what does not exist or is not used."""
    if method not in METHODS:
        raise ValueError(f"method is {method!r}: choose one of {', '.join(METHODS)}")
    if draft is not None and method != "lm":
        raise ValueError(f"a draft model is for method lm; {method} runs without one")
    usual = METHODS[method].knobs
    chosen = {name: value for name, value in given.items() if value is not None}
    for name, value in chosen.items():
        least, most = KNOBS[name]
        if name not in usual:
            raise ValueError(f"{name} is {value!r}, but {method} has no {name}: leave it out")
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"{name} is {value!r}: give a whole number from {least} to {most}")
    return usual | chosen


def build_drafter(target: Target, method: str, draft: str | None = None, **knobs: int | None):
    """(drafter, loaded draft model or None, knobs in force); raises what `settle` raises, and Unavailable."""
    settled = settle(method, draft, **knobs)
    drafter, loaded = METHODS[method].build(target, draft, **settled)
    return drafter, loaded, settled
