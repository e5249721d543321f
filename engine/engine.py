"""The loop. Read this file first.

A round: the drafter proposes a tree of tokens, one forward of the target scores the anchor and the whole tree, `verify`
decides which tokens stay and what the target writes itself, the cache keeps the accepted path, the drafter observes. Plain
decoding is the drafter that proposes nothing; reading the prompt is the round whose proposal is empty. Every batch is ragged.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engine import metrics
from engine.drafters import Drafter, chain
from engine.model import LM, PREFILL
from engine.sampling import ACCEPT, FINAL, uniforms, warp
from engine.types import Proposal, Sampling, Sequence, Step, Verdict
from engine.verify import rule_named, verify

if TYPE_CHECKING:
    from engine.vocabulary import Vocabulary


class BrokenLogits(RuntimeError):
    """A model returned NaN or infinity where a distribution was due."""


class Engine:
    """One target and one drafter serving any number of sequences. `vocabulary` gives ids their bytes (for stop strings) and
    the real size of a padded vocabulary: ids behind it can never be written."""

    def __init__(self, target: LM, drafter: Drafter, rule: str = "exact", vocabulary: Vocabulary | None = None):
        self.target, self.drafter, self.rule, self.vocabulary = target, drafter, rule_named(rule), vocabulary
        self.waiting: deque[Sequence] = deque()
        self.reading: list[Sequence] = []  # prompts on their way into the cache, a chunk at a time
        self.running: list[Sequence] = []
        self._resumed: set[int] = set()  # ids of sequences whose last token is an anchor already, not to be read now
        self._spent: dict[int, dict[str, dict]] = {}  # seconds and passes a prompt has taken so far, by sequence id

    def submit(
        self, tokens: list[int], sampling: Sampling, prompt_length: int | None = None, resume: bool = False
    ) -> Sequence:
        """Queue a prompt. With resume=True go on from `tokens` of an earlier run whose first `prompt_length` are the prompt."""
        prompt_length = len(tokens) if prompt_length is None else prompt_length
        limit = min(prompt_length + sampling.max_new, self.target.context)
        if not 0 < prompt_length <= len(tokens):
            raise ValueError("the prompt has no tokens: give at least one")
        if len(tokens) >= limit:
            raise ValueError(
                f"the prompt has {len(tokens)} tokens and the target reads at most {self.target.context}: shorten it"
                if limit == self.target.context
                else f"{len(tokens)} tokens leave nothing to write: the limit is {limit}"
            )
        if sampling.stop_strings and self.vocabulary is None:
            raise ValueError("stop strings need a vocabulary: build the engine with one")
        sequence = Sequence(list(tokens), prompt_length, sampling, limit)
        if resume and len(tokens) > prompt_length:
            self._resumed.add(sequence.id)
        self.waiting.append(sequence)
        return sequence

    def generate(self, tokens: list[int], sampling: Sampling) -> Iterator[Step]:
        """submit, then step until done; closing the iterator cancels the request."""
        sequence = self.submit(tokens, sampling)
        try:
            while not sequence.done:
                yield from (step for step in self.step() if step.sequence is sequence)
        finally:
            self.cancel(sequence)

    @torch.inference_mode()
    def step(self) -> list[Step]:
        """Read one chunk of a newcomer's prompt, or run one round for all. A chunk that ends no prompt returns no Step."""
        while self.waiting and (row := self.target.cache.acquire()) is not None:
            self.waiting[0].row = row
            self.reading.append(self.waiting.popleft())
        if self.reading:
            return self._read_prompts()
        return self._round() if self.running else []

    def cancel(self, sequence: Sequence) -> None:
        """Drop a sequence wherever it is; the others do not notice."""
        if sequence.done:
            return
        sequence.done = "cancelled"
        self._resumed.discard(sequence.id)
        self._spent.pop(sequence.id, None)
        if sequence in self.waiting:
            self.waiting.remove(sequence)
        self._retire([sequence])

    def _read_prompts(self) -> list[Step]:
        """The next chunk of every newcomer's prompt; a prompt that ends here gets its first token."""
        batch, clock, steps = list(self.reading), _Clock(self.target, self.drafter), []
        with clock:
            goals = [len(s.tokens) - (s.id in self._resumed) for s in batch]
            starts = [self.target.cache.length[s.row] for s in batch]
            chunks = [s.tokens[a : min(a + PREFILL, g)] for s, a, g in zip(batch, starts, goals, strict=True)]
            with clock.phase("target"):
                tokens = [torch.tensor(chunk, dtype=torch.long, device=self.target.device) for chunk in chunks]
                out = self.target.forward([s.row for s in batch], tokens, read="last", taps=self.drafter.taps)
            for s, chunk in zip(batch, chunks, strict=True):
                self.target.cache.commit(s.row, list(range(len(chunk))))
            taken = range(len(batch))
            with clock.phase("draft"):
                self.drafter.observe(batch, [out.seen(b, slice(len(chunks[b]))) for b in taken])
            ended = [b for b in taken if starts[b] + len(chunks[b]) == goals[b]]
            with clock.phase("verify"):
                nothing = chain([], self.target.device)
                for b in ended:
                    self.reading.remove(batch[b])
                    self.running.append(batch[b])
                    if batch[b].id not in self._resumed:
                        steps.append(self._judge(batch[b], nothing, out.logits[b], len(batch[b].tokens)))
            self._retire(batch)
        for s in batch:
            before = self._spent.get(s.id, {"seconds": {}, "passes": {}})
            now = {"seconds": clock.seconds, "passes": clock.passes}
            self._spent[s.id] = {
                part: {name: before[part].get(name, 0) + x for name, x in now[part].items()} for part in now
            }
        self._resumed -= {batch[b].id for b in ended}
        spent = {batch[b].id: self._spent.pop(batch[b].id) for b in ended}
        return [replace(step, **spent[step.sequence.id]) for step in steps]

    def _round(self) -> list[Step]:
        batch = list(self.running)
        clock = _Clock(self.target, self.drafter)
        with clock:
            with clock.phase("draft"):
                proposals = self.drafter.propose(batch)
            with clock.phase("target"):
                anchors = [torch.tensor(s.tokens[-1:], device=self.target.device) for s in batch]
                out = self.target.forward(
                    [s.row for s in batch],
                    [torch.cat([a, p.tokens]) for a, p in zip(anchors, proposals, strict=True)],
                    [
                        torch.cat([torch.full_like(a, -1), p.parents + 1])
                        for a, p in zip(anchors, proposals, strict=True)
                    ],
                    taps=self.drafter.taps,
                )
            with clock.phase("verify"):
                steps = [
                    self._judge(s, p, out.logits[b, : 1 + len(p)], 1 + len(p))
                    for b, (s, p) in enumerate(zip(batch, proposals, strict=True))
                ]
            features = []
            for b, step in enumerate(steps):
                kept = [0] + [node + 1 for node in step.verdict.path[: len(step.tokens) - 1]]
                self.target.cache.commit(step.sequence.row, kept)
                assert self.target.cache.length[step.sequence.row] == len(step.sequence.tokens) - 1
                features.append(out.seen(b, kept))
            with clock.phase("draft"):
                self.drafter.observe(batch, features)
            self._retire(batch)
        return [replace(step, seconds=clock.seconds, passes=clock.passes) for step in steps]

    def _judge(self, sequence: Sequence, proposal: Proposal, logits: Tensor, rows: int) -> Step:
        """Verify one sequence's proposal against its logits [1 + n, vocab] and commit what stays to its tokens."""
        start, sampling = len(sequence.tokens), sequence.sampling
        if self.vocabulary is not None:
            logits = logits[:, : self.vocabulary.size]
        refuse_broken("target", logits, start)
        if proposal.logits is not None:
            refuse_broken("drafter", proposal.logits, start)
        p = warp(logits, sampling)
        accept = uniforms(sampling.seed, start, ACCEPT, len(proposal))
        verdict = verify(proposal, p, accept, lambda d: uniforms(sampling.seed, start + d, FINAL, 1)[0], self.rule)
        tokens = proposal.tokens[verdict.path].tolist() + [verdict.next_token]
        tokens, done = self._cut(sequence, tokens)
        sequence.tokens += tokens
        sequence.done = done
        return Step(sequence, start, proposal, logits, p, _trim(verdict, len(tokens)), tokens, rows, {}, {}, done)

    def _cut(self, sequence: Sequence, tokens: list[int]) -> tuple[list[int], str | None]:
        """Cut a round's tokens behind the first that ends the text; say why it ended."""
        sampling, strings = sequence.sampling, [text.encode() for text in sequence.sampling.stop_strings]
        reach = max(map(len, strings), default=0)
        tail = b""
        if reach:  # the end of the output so far, long enough for a match that began there; the prompt never counts
            tail = b"".join(self.vocabulary.bytes[t] for t in sequence.output[-reach:])
        for i, token in enumerate(tokens, 1):
            if token in sampling.stop:
                return tokens[:i], "stop"
            if reach:
                fresh = self.vocabulary.bytes[token]
                tail = tail[max(0, len(tail) - reach + 1) :] + fresh
                if any(text in tail for text in strings):
                    return tokens[:i], "stop_string"
            if len(sequence.tokens) + i == sequence.limit:
                return tokens[:i], "length"
        return tokens, None

    def _retire(self, sequences: list[Sequence]) -> None:
        for sequence in sequences:
            if sequence.done:
                for stage in (self.reading, self.running):
                    if sequence in stage:
                        stage.remove(sequence)
                if sequence.row >= 0:
                    self.target.cache.release(sequence.row)


def _trim(verdict: Verdict, kept: int) -> Verdict:
    """Drop what lies behind the token that ended the text: it was never reached."""
    if kept > len(verdict.path):
        return verdict
    path = verdict.path[:kept]
    trials = verdict.trials[: 1 + next(i for i, t in enumerate(verdict.trials) if t.node == path[-1])]
    return replace(verdict, path=path, trials=trials)


def refuse_broken(model: str, logits: Tensor, position: int) -> None:
    peaks = logits.amax(-1)
    if not bool(peaks.isfinite().all()):
        row = int((~peaks.isfinite()).nonzero()[0, 0])
        raise BrokenLogits(
            f"the {model}'s logits are not finite in row {row} of the round that starts at position {position}: "
            "half precision may have overflowed; try --dtype bfloat16 or float32"
        )


class _Clock:
    """Seconds of one step by phase, everything outside a phase being "other"; and forwards of drafter and target."""

    def __init__(self, target: LM, drafter: Drafter):
        self.seconds = dict.fromkeys(metrics.PHASES, 0.0)
        self._target, self._drafter, self._device = target, drafter, target.device

    def _passes(self) -> dict[str, int]:
        return {"draft": self._drafter.passes, "target": self._target.passes}

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()

    def __enter__(self):
        self._began, self._inside, self._before = self._now(), 0.0, self._passes()

    def __exit__(self, *_):
        self.passes = {name: n - self._before[name] for name, n in self._passes().items()}
        self.seconds["other"] += self._now() - self._began - self._inside

    @contextmanager
    def phase(self, name: str):
        began = self._now()
        yield
        spent = self._now() - began
        self.seconds[name] += spent
        self._inside += spent
