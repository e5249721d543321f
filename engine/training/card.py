"""A model card beside stored weights: what they were trained on, how, what came of it, and what they are not for.

python -m engine.training.card assets/drafters/dspark-smollm2-135m.safetensors --experiment assets/experiments/methods.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from engine import checkpoints
from engine.experiment import total
from engine.training.progress import clock

WHAT = {
    "lm": "A draft model made of the target's first layers, distilled (Hinton et al. 2015); it guesses token by token.",
    "dflash": "A block drafter after DFlash (Chen, Liang, Liu 2026, arXiv 2602.06036): all tokens of a block in one pass.",
    "dspark": "A block drafter after DSpark (Cheng et al. 2026, arXiv 2607.05147): a block in one pass, then a Markov head and "
    "a confidence head.",
}
MEASURE = (
    "Held-out answers at temperature 0 up to their first loop, walked round by round, seven tokens drafted each time:"
)
LIMITS = """- It drafts for the target named above and for no other; the loader checks a hash of the target's weights.
- It learnt from chats that the target wrote itself, mostly English, up to 512 tokens. On other languages, long texts and
  unusual formats it is accepted less often. What is written never suffers: the target checks every token."""


def card(path: Path, report: dict | None = None) -> str:
    """The card of stored weights as Markdown, figures from their header and from an experiment's report."""
    facts = checkpoints.facts(path)
    plan, curve, config = (json.loads(facts[name]) for name in ("plan", "curve", "config"))
    lines = [
        f"# {path.stem}", "", WHAT[facts["kind"]], "",
        f"- target: {facts['target']}, weights {facts['target_hash']}",
        f"- shape: {', '.join(f'{name} {value}' for name, value in config.items())}",
        f"- file: {path.stat().st_size / 1e6:.1f} MB, matrices as 8-bit rows with a scale each", "",
        "## Training", "",
        f"- data: {facts['chats']} chats written by the target, {int(facts['own_tokens']):,} tokens to learn from, hash "
        f"{facts['corpus']}; 64 more chats were held out",
        f"- {plan['steps']} steps of {plan['batch']} chats"
        + ("" if facts["kind"] == "lm" else f" with {plan['anchors']} blocks each")
        + f", peak rate {plan['rate']:g}, seed {plan['seed']}; it may guess the {plan['words']} most frequent ids",
        f"- {clock(float(facts['seconds']))} on {facts['device']} in {facts['dtype']}, {facts['date']}, torch {facts['torch']}",
        f"- command: `{facts['command']}`", "",
        MEASURE, "",
        "| step | loss | first guess agrees | tokens per pass | survival at 1, 2, 3, ... |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for point in curve:
        survival = " ".join(f"{s:.2f}" for s in point.get("survival", ()))
        lines.append(
            f"| {point['step']} | {point.get('loss', '')} | {point['agreement']:.3f} | {point.get('tokens_per_pass', '')} | "
            f"{survival} |"
        )
    if report:
        lines += ["", *results(facts["kind"], report)]
    return "\n".join([*lines, "", "## Limits", "", LIMITS, ""])


def results(kind: str, report: dict) -> list[str]:
    """Tokens per pass of an experiment, for every variant of a method."""
    lines = [
        "## Results", "",
        f"{len(report['prompts'])} prompts kept from training, cut at the first repeated run of {report['loop']} tokens "
        f"({report['date']}, {report['machine']}):", "",
        "| variant | temperature | tokens per pass | passes |", "|---|---|---|---|",
    ]  # fmt: skip
    for temperature, rows in report["runs"].items():
        for variant in rows[0]:
            if variant.split(",")[0] == kind:
                sums = total(rows, variant)
                lines.append(
                    f"| {variant} | {temperature} | {sums['tokens'] / sums['passes']:.2f} | {sums['passes']} |"
                )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=Path)
    parser.add_argument("--experiment", type=Path)
    args = parser.parse_args()
    report = json.loads(args.experiment.read_text()) if args.experiment else None
    out = args.weights.with_suffix(".md")
    out.write_text(card(args.weights, report), encoding="utf-8")
    print(out)


if __name__ == "__main__":
    main()
