"""One loop for every drafter that is trained.

    python -m engine.training.train dspark --corpus chats --features features --steps 4000

A batch depends on the seed and the number of its step alone, so a run that was killed goes on from its last checkpoint and
ends with the same weights. The net runs in the target's number format beside a float32 master copy of its weights.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import transformers
from torch import Tensor, nn

from engine import checkpoints, metrics
from engine.drafters.lesson import Batch, Words, choose_anchors, move
from engine.load import Loaded, load_model
from engine.training.corpus import ANSWER, Corpus, NoCorpus, read
from engine.training.harvest import Features, harvest
from engine.training.progress import Progress, clock, stopping
from engine.training.recipes import RECIPES, block_config
from engine.weights import cache_folder, sha256

HELD_OUT = 64  # chats at the end of the corpus that are never learnt from
CHECKED = 16  # of those, at temperature 0, are looked at again and again while training
SAVE_EVERY = 120  # seconds between checkpoints


class TrainingFailed(RuntimeError):
    """The loss left the numbers; the last checkpoint is kept."""


@dataclass(frozen=True)
class Plan:
    """What decides a run's weights, beside the data. rate: after a warm-up of 4 % it falls as a cosine."""

    method: str
    steps: int
    batch: int = 4  # chats in a step
    anchors: int = 96  # blocks in a chat
    rate: float = 1e-3
    words: int = 8192  # ids that the drafter may guess
    seed: int = 0
    dtype: str = "auto"
    init: str = ""  # hash of the weights it starts from


class Trainer:
    """A net on its way. step() learns from one batch; save() and resume() keep everything a later process needs."""

    def __init__(self, plan: Plan, loaded: Loaded, corpus: Corpus, features: Features, init: Path | None = None):
        if loaded.dtype == "float16":
            raise NoCorpus("gradients vanish in float16: train with --dtype bfloat16 or float32")
        train = len(corpus) - HELD_OUT
        if train < plan.batch:
            raise NoCorpus(f"{len(corpus)} chats are too few: {HELD_OUT} are held out, and a step takes {plan.batch}")
        if not (corpus.role[:train] > 0).any():
            raise NoCorpus("the target wrote none of these chats: there is nothing to learn")
        self.plan, self.loaded, self.corpus, self.features = plan, loaded, corpus, features
        self.train = range(train)
        later = range(train, len(corpus))
        self.held_out = ([i for i in later if corpus.temperature[i] == 0] or list(later))[:CHECKED]
        model = loaded.model
        self.embed, self.head = model.get_input_embeddings(), model.get_output_embeddings()
        self.device = self.embed.weight.device
        torch.manual_seed(plan.seed)
        if init is None:
            net = RECIPES[plan.method](loaded, self.first_texts())
            net.words = frequent(corpus[:train], plan.words, self.head.weight.shape[0], self.device)
        else:
            net = checkpoints.restore(init, loaded).model
            if (kind := checkpoints.kind_of(net)) != plan.method:
                raise NoCorpus(f"{init} holds a {kind} drafter, not {plan.method}")
        if (taps := getattr(net.config, "taps", features.taps)) != features.taps:
            raise NoCorpus(f"the features are of layers {features.taps}, the drafter reads {taps}: harvest those")
        self.net = move(net, self.embed.weight).requires_grad_(True).train()
        self.master = {name: p.detach().float().clone() for name, p in self.net.named_parameters()}
        for tensor in self.master.values():
            tensor.requires_grad_(True)
        self.optimizers = optimizers(self.net, self.master, plan.rate, len(self.head.weight))
        self.done, self.seconds, self.cpu_seconds = 0, 0.0, 0.0
        self.curve: list[dict] = []

    def batch(self, step: int) -> Batch:
        """The batch of a step: every epoch passes over all chats in an order of its own, with anchors of its own."""
        size = self.plan.batch
        epoch, at = divmod(step * size, len(self.train) // size * size)
        order = torch.randperm(len(self.train), generator=torch.Generator().manual_seed(self.plan.seed * 7919 + epoch))
        dice = torch.Generator().manual_seed(self.plan.seed * 104729 + step)
        return self.texts(order[at : at + size].tolist(), dice)

    def first_texts(self) -> Iterator[Batch]:
        """Some chats in portions."""
        for start in range(0, min(128, len(self.train)), 8):
            chats = list(range(start, min(start + 8, len(self.train))))
            yield self.texts(chats, torch.Generator().manual_seed(start))

    def texts(self, chats: list[int], dice: torch.Generator, role: int = 1, everywhere: bool = False) -> Batch:
        """Some chats as a batch; only tokens of at least `role` are learnt from, blocks begin at random or `everywhere`."""
        tokens = torch.from_numpy(self.corpus.tokens[chats].astype("int64"))
        own = torch.from_numpy(self.corpus.role[chats] >= role)
        anchors = choose_anchors(own, own.shape[1] if everywhere else self.plan.anchors, dice)
        taps, last, total = self.features.get(chats)
        taps, last = (t.to(self.device, self.embed.weight.dtype) for t in (taps, last))
        return Batch(*(t.to(self.device) for t in (tokens, own, taps, last, total, anchors)))

    def step(self) -> dict[str, float]:
        """Learn from the next batch; the loss and its terms."""
        began, cpu = time.monotonic(), time.process_time()
        plan, at = self.plan, self.done + 1
        for p in self.net.parameters():
            p.grad = None
        terms = self.net.loss(self.embed, self.head, self.batch(self.done))
        terms["loss"].backward()
        named = dict(self.net.named_parameters())
        for name, tensor in self.master.items():
            grad = named[name].grad
            tensor.grad = None if grad is None else grad.float()
        norm = nn.utils.clip_grad_norm_(self.master.values(), 1.0)
        if not (math.isfinite(loss := terms["loss"].item()) and math.isfinite(float(norm))):
            raise TrainingFailed(f"step {at}: the loss is {loss}, the gradient {float(norm)}. Try a smaller --rate.")
        warm = max(1, round(0.04 * plan.steps))
        share = (at - warm) / max(1, plan.steps - warm)
        rate = plan.rate * (at / warm if at <= warm else 0.5 * (1 + math.cos(math.pi * share)))
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
        with torch.no_grad():
            for name, tensor in self.master.items():
                named[name].copy_(tensor)
        self.done = at
        self.seconds += time.monotonic() - began
        self.cpu_seconds += time.process_time() - cpu
        return {name: term.item() for name, term in terms.items()}

    @torch.inference_mode()
    def measure(self) -> dict:
        """Held-out answers at temperature 0, up to their first loop, walked round by round as drafting whole blocks would:
        tokens per pass, and survival by place. Agreement counts first guesses at every place. Teacher forcing is exact:
        while a draft is accepted, the text is the draft."""
        self.net.eval()
        total, agreed, places = metrics.EMPTY, 0, 0
        for chat in self.held_out:
            batch = self.texts([chat], torch.Generator().manual_seed(chat), ANSWER, everywhere=True)
            agree, taught = (t[0].tolist() for t in self.net.agree(self.embed, self.head, batch))
            answer = [i for i, mine in enumerate(batch.own[0].tolist()) if mine]
            loop = metrics.repeats_at([int(batch.tokens[0, i]) for i in answer])
            at, end = -1, answer[loop - 1] if answer else -1
            for anchor, same, there in zip(batch.anchors[0].tolist(), agree, taught, strict=True):
                if anchor < 0 or anchor >= end:
                    continue
                agreed, places = agreed + same[0], places + 1
                if anchor < at:
                    continue
                drafted = sum(there)
                kept = next((i for i in range(drafted) if not same[i]), drafted)
                verdicts = ["kept"] * kept + ["rejected"] * (kept < drafted) + ["not_reached"] * (drafted - kept - 1)
                total = metrics.count(total, list(enumerate(verdicts, 1)), kept + 1)
                at = anchor + kept + 1
        self.net.train()
        reached = [*total["kept"], *[0] * (len(total["offered"]) - len(total["kept"]))]
        return {
            "tokens_per_pass": round(total["tokens"] / max(1, total["passes"]), 4), "rounds": total["rounds"],
            "agreement": round(agreed / max(1, places), 4),
            "survival": [round(k / n, 4) for k, n in zip(reached, total["offered"], strict=True)],
        }  # fmt: skip

    def state(self) -> dict:
        return {
            "plan": asdict(self.plan), "corpus": self.corpus.hash, "target": self.loaded.hash, "done": self.done,
            "seconds": self.seconds, "cpu_seconds": self.cpu_seconds, "curve": json.dumps(self.curve),
            "master": {name: t.detach() for name, t in self.master.items()},
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }  # fmt: skip

    def save(self, path: Path) -> None:
        """Replace the checkpoint in one move; if that fails the old one stays."""
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(".partial")
        try:
            torch.save(self.state(), half)
            os.replace(half, path)
        finally:
            half.unlink(missing_ok=True)

    def resume(self, path: Path) -> None:
        """Go on from a checkpoint of this very plan, corpus and target; NoCorpus says what differs."""
        kept = torch.load(path, map_location=self.device, weights_only=True)
        mine = self.state()
        for what in ("plan", "corpus", "target"):
            if kept[what] != mine[what]:
                raise NoCorpus(
                    f"{path} is of another run ({what}: {kept[what]}, now {mine[what]}); choose another --run"
                )
        with torch.no_grad():
            for name, p in self.net.named_parameters():
                self.master[name].copy_(kept["master"][name])
                p.copy_(kept["master"][name])
        for optimizer, state in zip(self.optimizers, kept["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        self.done, self.seconds, self.cpu_seconds = kept["done"], kept["seconds"], kept["cpu_seconds"]
        self.curve = json.loads(kept["curve"])

    def facts(self, command: str) -> dict[str, str]:
        """What travels with the weights."""
        own = int((self.corpus.role[: len(self.train)] > 0).sum())
        return {
            "command": command, "plan": json.dumps(asdict(self.plan)), "corpus": self.corpus.hash,
            "chats": str(len(self.train)), "own_tokens": str(own), "seconds": f"{self.seconds:.0f}",
            "cpu_seconds": f"{self.cpu_seconds:.0f}", "curve": json.dumps(self.curve), "torch": torch.__version__,
            "transformers": transformers.__version__, "target": self.loaded.name, "dtype": self.loaded.dtype,
            "device": machine(self.device), "date": time.strftime("%Y-%m-%d"),
        }  # fmt: skip


def optimizers(net: nn.Module, master: dict[str, Tensor], rate: float, vocabulary: int) -> list[torch.optim.Optimizer]:
    """Muon (Jordan et al. 2024) for the matrices inside, AdamW for vectors and tables with a row for each id. Scaled so that
    both move a weight about as far a step at one rate."""
    tables = [m for m in net.modules() if isinstance(m, nn.Embedding | nn.Linear) and len(m.weight) == vocabulary]
    ids = {name for name, p in net.named_parameters() if any(p is m.weight for m in tables)}
    inner = [t for name, t in master.items() if t.dim() == 2 and min(t.shape) > 1 and name not in ids]
    outer = [t for t in master.values() if all(t is not other for other in inner)]
    muon = torch.optim.Muon(inner, lr=rate, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
    return [muon, torch.optim.AdamW(outer, lr=rate, weight_decay=0.0, betas=(0.9, 0.95), fused=True)]


def frequent(corpus: Corpus, count: int, vocabulary: int, device: torch.device) -> Words:
    """The most frequent ids of what the target wrote; ties go to the lower id."""
    seen = torch.bincount(torch.from_numpy(corpus.tokens[corpus.role > 0].astype("int64")), minlength=vocabulary)
    return Words(seen.sort(descending=True, stable=True).indices[:count].to(device), vocabulary)


def keep_memory() -> None:
    """Let the C library keep what is freed: a step's large tensors would be mapped and zeroed anew each time (1.5 x)."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(-4, 0)  # M_MMAP_MAX: everything from the heap
        libc.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: give nothing back


def machine(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {torch.get_num_threads()} threads"


def train(
    trainer: Trainer,
    checkpoint: Path,
    *,
    measure_every: int = 200,
    progress: Callable[[float, str], None] = lambda share, words: None,
) -> None:
    """Step until the plan is done, with checkpoints. Ctrl-C is obeyed between two steps and loses nothing; an error keeps
    the last checkpoint."""
    saved, recent = time.monotonic(), None
    with _patient() as asked:
        while True:
            due = trainer.done % measure_every == 0 or trainer.done == trainer.plan.steps
            if due and (not trainer.curve or trainer.curve[-1]["step"] != trainer.done):
                loss = {} if recent is None else {"loss": round(recent, 4)}
                trainer.curve.append({"step": trainer.done, **loss, **trainer.measure()})
            if trainer.done == trainer.plan.steps or asked:
                break
            loss = trainer.step()["loss"]
            recent = loss if recent is None else 0.95 * recent + 0.05 * loss
            if time.monotonic() - saved > SAVE_EVERY:
                trainer.save(checkpoint)
                saved = time.monotonic()
            words = f"step {trainer.done}, loss {recent:.3f}, held out {trainer.curve[-1]['tokens_per_pass']:.2f} tokens a pass"
            progress(trainer.done / trainer.plan.steps, words)
        trainer.save(checkpoint)
    if asked:
        raise KeyboardInterrupt


@contextmanager
def _patient() -> Iterator[list]:
    """Ctrl-C inside a step would tear it: it is noted, and obeyed between two steps."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: asked.append(number))
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("method", choices=RECIPES)
    parser.add_argument("--corpus", type=Path, nargs="+", required=True, help="shards of chats, or folders of them")
    parser.add_argument(
        "--features", type=Path, required=True, help="folder of engine.training.harvest; made if need be"
    )
    parser.add_argument("--steps", type=int, default=4000)
    for name in ("batch", "anchors", "words", "seed"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Plan, name))
    parser.add_argument("--rate", type=float, default=Plan.rate, help="peak learning rate")
    parser.add_argument(
        "--init", type=Path, help="start from stored weights, for instance to tune them to other prompts"
    )
    parser.add_argument("--run", default=None, help="name of the run's folder in the cache (default: the method's)")
    parser.add_argument("--out", type=Path, help="where to store the weights (default: in the run's folder)")
    parser.add_argument("--target", default=None, help="folder or hub id (default: the small default target)")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    folder = cache_folder() / "training" / (args.run or args.method)
    keep_memory()
    with stopping(f"the same command goes on from {folder}"):
        loaded = load_model(args.target, dtype=args.dtype, device=args.device)
        corpus = read(args.corpus, loaded.vocabulary.size)
        label = json.loads(path.read_text()) if (path := args.features / "features.json").exists() else {}
        taps = tuple(label.get("taps") or block_config(loaded, True).taps)
        with Progress("reading chats") as progress:
            features = harvest(loaded, corpus, args.features, taps, progress)
        init = sha256(args.init)[:16] if args.init else ""
        plan = Plan(
            args.method, args.steps, args.batch, args.anchors, args.rate, args.words, args.seed, loaded.dtype, init
        )
        trainer = Trainer(plan, loaded, corpus, features, args.init)
        if (folder / "checkpoint.pt").exists():
            trainer.resume(folder / "checkpoint.pt")
        with Progress(f"training {args.method}") as progress:
            train(trainer, folder / "checkpoint.pt", progress=progress)
        out = args.out or folder / f"{args.method}.safetensors"
        command = "python -m engine.training.train " + shlex.join(sys.argv[1:])
        checkpoints.store(trainer.net, out, loaded.hash, **trainer.facts(command))
    print(f"{out}: {trainer.curve[-1]['tokens_per_pass']} tokens a pass held out, {clock(trainer.seconds)}")


if __name__ == "__main__":
    main()
