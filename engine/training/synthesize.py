"""The target writes its own chats: the text that its drafters are trained on.

    python -m engine.training.synthesize --out chats --chats 512
    python -m engine.training.synthesize --out mine --chats 128 --prompts prompts.txt

A drafter has to guess what this target writes, so nothing teaches it better. The model takes the user's part too (at
temperature 1, sometimes after a fixed opener), answers, and goes on until a chat is full. With --prompts the users' first
turns come from a file, one a line: a drafter can so be tuned to the prompts that it will meet. A run that was stopped goes
on with the first shard that is missing.
"""

from __future__ import annotations

import argparse
import hashlib
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from engine.engine import refuse_broken
from engine.load import Loaded, load_model
from engine.model import LM
from engine.run import end_ids
from engine.sampling import draw, warp
from engine.training.corpus import ANSWER, FORCED, LENGTH, USER, Corpus, keep_label
from engine.training.progress import Progress, stopping
from engine.types import Sampling

TEMPERATURES = (0.0, 0.3, 0.7, 1.0)  # of the answers, in equal parts; greedy text repeats itself, so it is not the rule
AS_USER = Sampling(temperature=1.0, min_p=0.02)
OPENERS = (
    "Write a Python function that", "Write a JavaScript function that", "Explain step by step how",
    "What is the difference between", "Translate the following sentence into French:", "Translate into Spanish:",
    "Translate into German:", "Summarize the following text:", "Make a table that compares", "Write a short story about",
    "Write a poem about", "Solve this problem:", "A train leaves the station at", "If a shop sells", "List five",
    "Give me a recipe for", "Write an email to", "Who was", "Why do", "How does", "Correct the grammar:",
    "Write an SQL query that", "What would happen if", "Classify the following review:", "Continue this text:",
    "Rewrite this sentence in a formal tone:", "Answer using the passage below.", "Plan a week of",
)  # fmt: skip


@dataclass(frozen=True)
class Template:
    """What stands between the words of a chat, as ids."""

    opening: list[int]  # before the first user turn
    to_answer: list[int]
    to_user: list[int]

    @staticmethod
    def of(loaded: Loaded) -> Template:
        marks, tokenizer = ("<one>", "<two>", "<three>"), loaded.tokenizer
        text = "<one>\n<two>\n<three>\n"
        if tokenizer.chat_template:
            turns = [{"role": who, "content": m} for who, m in zip(("user", "assistant", "user"), marks, strict=True)]
            text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        opening, rest = text.split("<one>", 1)
        to_answer, rest = rest.split("<two>", 1)
        to_user = rest.split("<three>", 1)[0]
        spelt = [tokenizer(part, add_special_tokens=False).input_ids for part in (opening, to_answer, to_user)]
        return Template(spelt[0] or [loaded.tokenizer.bos_token_id or 0], *spelt[1:])


@dataclass
class Chat:
    """One chat on its way: whose turn it is, who wrote what, and the ids that are given before the model goes on."""

    temperature: float  # of the answers
    given: deque[int]
    turn: int  # whose words the model writes next
    most: int  # tokens in a self-written user turn
    tokens: list[int] = field(default_factory=list)
    role: list[int] = field(default_factory=list)
    since: int = 0  # length of the turn that is being written

    def add(self, drawn: int, template: Template, ends: frozenset[int]) -> None:
        """Take the next given id, or the one that the model drew; a turn that has ended brings the template's words."""
        if self.given:
            self.tokens.append(self.given.popleft())
            self.role.append(FORCED)
            return
        self.tokens.append(drawn)
        self.role.append(self.turn)
        self.since += 1
        if drawn in ends or (self.turn == USER and self.since == self.most):
            between = template.to_answer if self.turn == USER else template.to_user
            self.given.extend(between[1:] if drawn in ends and between[:1] and between[0] in ends else between)
            self.turn, self.since = (ANSWER if self.turn == USER else USER), 0


def make_chat(index: int, seed: int, length: int, loaded: Loaded, template: Template, prompts: list[str]) -> Chat:
    """Chat number `index`, which depends on nothing else but the seed (and the prompts)."""
    dice = np.random.default_rng([seed, index])
    words = prompts[index // len(TEMPERATURES) % len(prompts)] if prompts else ""
    if not prompts and dice.random() < 0.6:
        words = str(dice.choice(OPENERS))
    given = template.opening + (loaded.tokenizer(words, add_special_tokens=False).input_ids if words else [])
    temperature = TEMPERATURES[index % len(TEMPERATURES)]
    if prompts and temperature == 0 and index >= len(TEMPERATURES) * len(prompts):
        temperature = 0.7  # a greedy answer to the same prompt would be the same chat again
    if prompts:
        return Chat(temperature, deque(given + template.to_answer), ANSWER, length // 3)
    return Chat(temperature, deque(given), USER, length // 3)


def synthesize(
    loaded: Loaded,
    out: Path,
    chats: int,
    *,
    length: int = LENGTH,
    rows: int = 128,
    seed: int = 0,
    prompts: list[str] | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> None:
    """Write shards of `rows` chats, OUT/chats_SEED_NUMBER.npz, until there are at least `chats`.

    A shard that is there already is kept, so a run that was stopped goes on. progress hears the share that is done.
    """
    template, ends = Template.of(loaded), end_ids(loaded)
    for prompt in prompts or []:
        if len(loaded.tokenizer(prompt).input_ids) > length // 2:
            raise ValueError(f"the prompt {prompt[:40]!r}... leaves no room in a chat of {length} tokens: shorten it")
    told = hashlib.sha256("\n".join(prompts or []).encode()).hexdigest()[:16]
    keep_label(
        out / "chats.json", {"target": loaded.hash, "length": length, "rows": rows, "seed": seed, "prompts": told}
    )
    lm, shards = LM(loaded.model, rows), -(-chats // rows)
    for number in range(shards):
        path = out / f"chats_{seed}_{number:05}.npz"
        if not path.exists():
            batch = [make_chat(number * rows + i, seed, length, loaded, template, prompts or []) for i in range(rows)]
            dice = np.random.default_rng([seed, number, length])
            for done in range(length):
                progress((number + done / length) / shards)
                _write_one(lm, batch, dice, loaded.vocabulary.size, template, ends)
            Corpus(
                np.array([chat.tokens for chat in batch], np.uint32),
                np.array([chat.role for chat in batch], np.uint8),
                np.array([chat.temperature for chat in batch], np.float32),
            ).write(path)
        progress((number + 1) / shards)


def _write_one(lm: LM, batch: list[Chat], dice, size: int, template: Template, ends: frozenset[int]) -> None:
    """One more token for every chat. They march in step, so that given words cost no pass of their own."""
    rows, drawn = list(range(len(batch))), [0] * len(batch)
    if batch[0].tokens:
        out = lm.forward(rows, [torch.tensor(chat.tokens[-1:], device=lm.device) for chat in batch], read="last")
        refuse_broken("target", out.logits[:, 0], len(batch[0].tokens))
        laws = defaultdict(list)
        for row, chat in zip(rows, batch, strict=True):
            lm.cache.commit(row, [0])
            if not chat.given:
                laws[AS_USER if chat.turn == USER else Sampling(temperature=chat.temperature)].append(row)
        for sampling, members in laws.items():
            p = warp(out.logits[members, 0, :size], sampling)
            ids = draw(p, torch.as_tensor(dice.random(len(members)), device=lm.device)).tolist()
            for row, token in zip(members, ids, strict=True):
                drawn[row] = token
    else:
        lm.cache.length = [0] * len(batch)
    for chat, token in zip(batch, drawn, strict=True):
        chat.add(token, template, ends)


def read_prompts(path: Path) -> list[str]:
    """One prompt a line; blank lines are skipped. ValueError if none is left."""
    prompts = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not prompts:
        raise ValueError(f"{path} holds no prompt: write one a line")
    return prompts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the shards")
    parser.add_argument("--chats", type=int, default=512)
    parser.add_argument("--target", default=None, help="folder or hub id (default: the small default target)")
    parser.add_argument("--prompts", type=Path, help="file with first user turns, one a line")
    parser.add_argument("--length", type=int, default=LENGTH, help="tokens in a chat")
    parser.add_argument("--rows", type=int, default=128, help="chats written at once, and in a shard")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    with stopping():
        prompts = read_prompts(args.prompts) if args.prompts else []
        loaded = load_model(args.target, dtype=args.dtype, device=args.device)
        with Progress("writing chats") as progress:
            synthesize(
                loaded, args.out, args.chats, length=args.length, rows=args.rows, seed=args.seed, prompts=prompts,
                progress=progress,
            )  # fmt: skip


if __name__ == "__main__":
    main()
