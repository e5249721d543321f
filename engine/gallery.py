"""Recorded runs of every method on the same prompts, for a page that plays them without an engine.

    python -m engine.gallery --prompts assets/prompts.json --out assets/gallery

One trace file for each prompt and method, on a machine that does nothing else: the times in it are shown. Prompts are a JSON
object {name: text}. What is there already is recorded anew.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from engine import metrics, trace
from engine.load import load_model
from engine.methods import METHODS, Target
from engine.run import run
from engine.training.progress import Progress, stopping
from engine.types import Sampling


def record(
    target: Target,
    prompts: dict[str, str],
    out: Path,
    sampling: Sampling,
    methods: tuple[str, ...] = tuple(METHODS),
    progress: Callable[[float, str], None] = lambda share, words: None,
    repeats: int = 1,
) -> list[Path]:
    """Run every method on every prompt, one after the other; the paths of the files, out/prompt.method.jsonl.gz.

    Of `repeats` runs, which differ in nothing but their times, the one whose time is in the middle is kept.
    """
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / f"{prompt}.{method}.jsonl.gz" for prompt in prompts for method in methods]
    for i, path in enumerate(paths):
        prompt, method = path.name.split(".")[:2]
        progress(i / len(paths), f"{prompt}, {method}")
        half = path.with_name("partial." + path.name)
        try:
            runs = [
                list(run(target, prompts[prompt], method, sampling, baseline=sampling.max_new)) for _ in range(repeats)
            ]
            runs.sort(key=lambda records: sum(metrics.elapsed(r) for r in records if r["type"] == "round"))
            list(trace.write(half, runs[repeats // 2]))
            half.rename(path)
        finally:
            half.unlink(missing_ok=True)
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--max-new", type=int, default=48)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--repeats", type=int, default=3, help="runs of which the middle one by its time is kept")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", default=None, help="folder or hub id (default: the small default target)")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    prompts = json.loads(args.prompts.read_text(encoding="utf-8"))
    sampling = Sampling(temperature=args.temperature, max_new=args.max_new, seed=args.seed)
    with stopping():
        target = Target(load_model(args.target, dtype=args.dtype, device=args.device))
        with Progress("recording") as progress:
            paths = record(target, prompts, args.out, sampling, tuple(args.methods), progress, args.repeats)
    print(f"{len(paths)} runs, {sum(path.stat().st_size for path in paths) / 1e6:.1f} MB in {args.out}")


if __name__ == "__main__":
    main()
