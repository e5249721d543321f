"""Generate from the command line and see every round.

python -m engine.generate --method ngram --prompt "Copy this table: ..." --rounds
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from engine import trace
from engine.types import Sampling

INK = {"draft": "34;4", "correction": "1", "bonus": "1", "plain": "0", "rejected": "33;9", "not_reached": "2"}
MARK = {"kept": ("✓", "draft"), "rejected": ("✗", "rejected"), "not_reached": ("○", "not_reached")}
WORD = {"correction": "↩ fixed", "bonus": "★ bonus", "plain": "plain"}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):
        sys.exit(_fail(message))


def _fail(message: str) -> int:
    print(f"engine.generate: {' '.join(str(message).split())}", file=sys.stderr)
    return 2


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = _Parser(prog="python -m engine.generate", description=__doc__.splitlines()[0])
    parser.add_argument("--method", default="plain", help="plain, ngram, lm, dflash or dspark")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--prompt", help="the text to answer")
    source.add_argument("--prompt-file", type=Path, help="a file that holds it")
    parser.add_argument("--raw", action="store_true", help="continue the text as it stands, without the chat template")
    parser.add_argument("--k", type=int, help="drafted tokens a round")
    parser.add_argument("--n", type=int, help="longest match, for --method ngram")
    parser.add_argument(
        "--threshold", type=float, help="dflash, dspark: send no token that the drafter is less sure of"
    )
    parser.add_argument("--sampled", action="store_true", default=None, help="dflash: draw tokens, not the likeliest")
    parser.add_argument("--no-markov", dest="markov", action="store_false", default=None, help="dspark: head off")
    parser.add_argument(
        "--no-confidence", dest="confidence", action="store_false", default=None, help="dspark: head off"
    )
    parser.add_argument("--temperature", type=float, default=0.0, help="0 = greedy")
    parser.add_argument("--top-k", type=int, default=0, help="0 = off")
    parser.add_argument("--top-p", type=float, default=1.0, help="1 = off")
    parser.add_argument("--min-p", type=float, default=0.0, help="0 = off")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-new", type=int, default=128)
    parser.add_argument("--stop", nargs="+", default=[], metavar="S", help="strings that end the text")
    parser.add_argument("--ignore-eos", action="store_true", help="write on behind the end-of-text token")
    parser.add_argument("--target", help="name, folder or hub id of the target (default: smollm2-135m)")
    parser.add_argument("--draft", help="folder or hub id of other drafter weights")
    parser.add_argument("--rule", default="exact", help="exact, match (lossless); tolerance, typical (lossy)")
    parser.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or float16")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="keep the run as JSON lines")
    parser.add_argument(
        "--baseline", type=int, default=0, metavar="N", help="time N tokens of plain decoding afterwards"
    )
    parser.add_argument("--rounds", action="store_true", help="one line a round instead of running text")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line, nothing else")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    args = _arguments(argv)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal that lacks a character shows a mark, not a traceback
    try:
        prompt = args.prompt if args.prompt is not None else args.prompt_file.read_text(encoding="utf-8")
        sampling = Sampling(
            temperature=args.temperature, top_k=args.top_k, top_p=args.top_p, min_p=args.min_p,
            max_new=args.max_new, stop_strings=tuple(args.stop), seed=args.seed,
        )  # fmt: skip
        from engine.load import load_model
        from engine.methods import KNOBS, Target, settle
        from engine.run import run
        from engine.verify import rule_named

        rule_named(args.rule)
        knobs = {name: getattr(args, name) for name in KNOBS}
        settle(args.method, args.draft, **knobs)
        target = Target(load_model(args.target, dtype=args.dtype, device=args.device, progress=_progress))
        records = run(
            target, prompt, args.method, sampling, rule=args.rule, draft=args.draft, raw=args.raw,
            ignore_eos=args.ignore_eos, baseline=args.baseline, **knobs,
        )  # fmt: skip
        if args.trace:
            records = trace.write(args.trace, records)
        _show(records, target.loaded.vocabulary, args)
    except (ValueError, OSError, RuntimeError) as error:
        return _fail(error)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    return 0


def _progress(state: dict) -> None:
    if not sys.stderr.isatty():
        return
    share = f" {100 * state['done'] // state['total']} %" if state.get("total") else ""
    print(f"\r{state['phase']}{share}".ljust(40), end="", file=sys.stderr, flush=True)
    if state["phase"] == "load":
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr)


def _show(records: Iterator[dict], vocabulary, args: argparse.Namespace) -> None:
    """Stream the text or the rounds, then the end line or the JSON object."""
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    head, end, rounds, decoder = {}, {}, [], vocabulary.decoder()
    for record in records:
        if record["type"] == "run":
            head = record
        elif record["type"] == "end":
            end = record
        elif record["type"] == "round":
            rounds.append(record)
            if args.json:
                continue
            if args.rounds:
                print(_line(record, vocabulary, colour), flush=True)
            else:
                for token in record["emit"]:
                    text = decoder.feed([token["token_id"]])
                    print(_paint(text, token["maker"], colour), end="", flush=True)
    ids = [token["token_id"] for record in rounds for token in record["emit"]]
    counts, decoding = rounds[-1]["counts"], end["decoding"]
    if args.json:
        print(json.dumps({
            "text": vocabulary.text(ids), "ids": ids, "rounds": counts["rounds"], "target_passes": counts["passes"],
            "committed": [len(r["emit"]) for r in rounds], "drafted": counts["drafted"], "tested": counts["tested"],
            "accepted": counts["accepted"], "seconds": end["seconds"], "decoding": decoding, "plain": end["plain"],
            "method": head["method"], "k": head["knobs"].get("k", 0), "rule": head["rule"], "lossless": head["lossless"],
            "draft": head["models"]["draft"] and head["models"]["draft"]["name"], "done": end["done"], "hash": end["hash"],
            "dtype": head["models"]["target"]["dtype"], "device": head["models"]["target"]["device"],
            "target": head["models"]["target"]["name"], "weights": head["models"]["target"]["weights"],
        }, ensure_ascii=False))  # fmt: skip
        return
    if not args.rounds:
        print(_paint(decoder.flush(), "plain", colour))
    print(_summary(counts, end))


def _summary(counts: dict, end: dict) -> str:
    spent, speed = end["seconds"], end["decoding"]["tokens_per_second"]
    parts = [
        f"{counts['tokens']} tokens in {counts['passes']} target passes",
        f"{counts['tokens'] / counts['passes']:.2f} tokens per pass",
        f"accepted {counts['accepted']} of {counts['tested']} tested, {counts['drafted']} drafted",
        f"{speed:.1f} tok/s after the prompt" if speed else "no tokens after the prompt",
        ", ".join(f"{phase} {1000 * seconds:.0f} ms" for phase, seconds in spent.items()),
    ]
    if end["plain"] and speed:
        gain = speed / end["plain"]["tokens_per_second"]
        parts.append(
            f"plain {end['plain']['tokens_per_second']:.1f} tok/s: {gain:.2f}x, {'faster' if gain > 1 else 'slower'}"
        )
    return "\n".join(["-" * 40, *parts])


def _line(record: dict, vocabulary, colour: bool) -> str:
    """One round in one line: kept, rejected and not reached drafts, then what the target wrote."""
    words = []
    for draft, check in zip(record["draft"], record["verify"], strict=True):
        mark, ink = MARK[check["verdict"]]
        words.append(_paint(mark + _visible(vocabulary.piece(draft["token_id"])), ink, colour))
    for token in record["emit"]:
        if token["maker"] != "draft":
            words.append(
                _paint(
                    f"{WORD[token['maker']]}:{_visible(vocabulary.piece(token['token_id']))}", token["maker"], colour
                )
            )
    spent = sum(record[f"t_{phase}"] for phase in ("draft", "target", "verify", "other"))
    return f"{record['i']:4d} {spent:7.1f} ms  " + "  ".join(words)


def _visible(piece: str | list[int]) -> str:
    if isinstance(piece, list):
        return "".join(f"<{byte:02X}>" for byte in piece)
    return repr(piece)[1:-1].replace(" ", "\u2420")


def _paint(text: str, ink: str, colour: bool) -> str:
    return f"\x1b[{INK[ink]}m{text}\x1b[0m" if colour and text else text


if __name__ == "__main__":
    sys.exit(main())
