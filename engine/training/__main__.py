"""Everything from nothing: the target writes chats, its features are kept, every drafter is trained on them and stored.

    python -m engine.training                        # into the cache
    python -m engine.training --prompts mine.txt     # tuned to one's own prompts

Sizes fit the device: on a GPU all of it is a matter of minutes, on a CPU of many hours. Whatever is stopped goes on where it
was when the same command is given again.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from engine import checkpoints
from engine.load import load_model
from engine.training.corpus import read
from engine.training.harvest import harvest
from engine.training.progress import Progress, clock, stopping
from engine.training.recipes import RECIPES, block_config
from engine.training.synthesize import read_prompts, synthesize
from engine.training.train import Plan, Trainer, keep_memory, train
from engine.weights import cache_folder

SIZES = {  # chats, rows written at once, steps, chats in a step, blocks in a chat
    "cuda": {"chats": 4096, "rows": 512, "steps": 1500, "batch": 32, "anchors": 192},
    "cpu": {"chats": 1536, "rows": 128, "steps": 4000, "batch": 4, "anchors": 96},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=RECIPES, default=list(RECIPES))
    parser.add_argument("--work", type=Path, help="folder for chats, features and weights (default: in the cache)")
    parser.add_argument("--corpus", type=Path, nargs="*", default=[], help="chats to use beside those written now")
    parser.add_argument("--prompts", type=Path, help="file with first user turns, one a line")
    for name in SIZES["cpu"]:
        parser.add_argument(f"--{name}", type=int, help="default: what fits the device")
    parser.add_argument("--rate", type=float, default=Plan.rate)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", default=None, help="folder or hub id (default: the small default target)")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    command = "python -m engine.training " + shlex.join(sys.argv[1:])
    keep_memory()
    with stopping():
        prompts = read_prompts(args.prompts) if args.prompts else []
        loaded = load_model(args.target, dtype=args.dtype, device=args.device)
        usual = SIZES["cpu" if loaded.device == "cpu" else "cuda"]
        size = {name: getattr(args, name) or number for name, number in usual.items()}
        work = args.work or cache_folder() / "training" / (
            f"{loaded.name}-{args.prompts.stem}" if prompts else loaded.name
        )
        with Progress("writing chats") as progress:
            synthesize(
                loaded,
                work / "chats",
                size["chats"],
                rows=size["rows"],
                seed=args.seed,
                prompts=prompts,
                progress=progress,
            )
        corpus = read([*args.corpus, work / "chats"], loaded.vocabulary.size)
        with Progress("reading chats") as progress:
            features = harvest(loaded, corpus, work / "features", block_config(loaded, True).taps, progress)
        for method in args.methods:
            plan = Plan(
                method, size["steps"], size["batch"], size["anchors"], args.rate, seed=args.seed, dtype=loaded.dtype
            )
            trainer = Trainer(plan, loaded, corpus, features)
            checkpoint = work / method / "checkpoint.pt"
            if checkpoint.exists():
                trainer.resume(checkpoint)
            with Progress(f"training {method}") as progress:
                train(trainer, checkpoint, progress=progress)
            out = work / f"{method}-{loaded.name}.safetensors"
            checkpoints.store(trainer.net, out, loaded.hash, **trainer.facts(command))
            print(f"{out}: {trainer.curve[-1]['tokens_per_pass']} tokens a pass held out, {clock(trainer.seconds)}")


if __name__ == "__main__":
    main()
