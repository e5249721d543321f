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
    """build(target, k, draft) -> the drafter, and the draft model it runs (None without one)."""

    k: int  # drafted tokens a round unless told otherwise; 0 = the method drafts nothing
    build: Callable[[Target, int, str | None], tuple[Drafter, Loaded | None]]


def _plain(target: Target, k: int, draft: str | None):
    return NoDraft(), None


def _ngram(target: Target, k: int, draft: str | None):
    return NgramDrafter(k, device=target.lm.device), None


def _lm(target: Target, k: int, draft: str | None):
    lm, loaded = target.draft(draft)
    return ModelDrafter(lm, k, target.loaded.vocabulary.size), loaded


MOST = 64  # drafted tokens a round
METHODS = {"plain": Method(0, _plain), "ngram": Method(8, _ngram), "lm": Method(3, _lm)}


def settle(method: str, k: int | None = None, draft: str | None = None) -> int:
    """The k in force. ValueError for a method or k that does not exist, or a draft model where none is used."""
    if method not in METHODS:
        raise ValueError(f"method is {method!r}: choose one of {', '.join(METHODS)}")
    if draft is not None and method != "lm":
        raise ValueError(f"a draft model is for method lm; {method} runs without one")
    if k is not None and (not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= MOST):
        raise ValueError(f"k is {k!r}: give a whole number from 1 to {MOST}")
    usual = METHODS[method].k
    return usual if usual == 0 or k is None else k


def build_drafter(target: Target, method: str, k: int | None = None, draft: str | None = None):
    """(drafter, loaded draft model or None, k in force); raises what `settle` raises, and Unavailable."""
    k = settle(method, k, draft)
    drafter, loaded = METHODS[method].build(target, k, draft)
    return drafter, loaded, k
