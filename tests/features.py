"""Which rows of the feature table are proved by a test, and which are still missing.

    python tests/features.py

A test proves a row when its name carries the row's id (test_c5_...). Exit code 1 if one is neither proved nor excused.
"""

import sys

from known_bugs import carriers

FEATURES = {
    "A1": "real models make the tokens", "A2": "one pass of the target scores the drafted tokens",
    "A3": "draft tokens appear as they are made", "A4": "rejected tokens stay", "A5": "never judged is a state of its own",
    "A6": "correction and bonus told apart", "A7": "who made each token of the text", "A8": "blanks and bytes as signs",
    "A9": "one card by mouse, touch and keys", "A10": "time of each phase", "A11": "tokens per second beside tokens per pass",
    "A12": "a seed repeats the run", "A13": "record and replay", "B1": "pause stands the engine still",
    "B2": "steps of three grains", "B3": "back and scrub", "B4": "speeds up to real time", "B5": "jumps", "B6": "stop when",
    "B7": "keys", "B8": "force a verdict and branch", "C1": "min(1, p/q) with the run's numbers", "C2": "u on the same ruler",
    "C3": "mirrored bars", "C4": "overlap as an area", "C5": "the residual", "C6": "many draws against the target",
    "C7": "broken rules", "C8": "rules marked lossless or lossy", "C9": "temperature, top-k, top-p act first",
    "C10": "near ties and the gap", "C11": "cache rows written, kept, cut", "D1": "separate draft model", "D2": "n-gram",
    "D3": "Medusa: why it is off", "D4": "EAGLE chain", "D5": "EAGLE-2 tree", "D6": "EAGLE-3", "D7": "MTP", "D8": "DFlash",
    "D9": "DSpark", "D10": "early exit: whether and why", "D11": "who sees what", "D12": "methods on one prefix",
    "F1": "survival", "F2": "conditional acceptance", "F3": "one toggle", "F4": "a collision found in the run",
    "F5": "Markov head on and off", "F6": "draft length and its worth", "F7": "first place against the tail",
    "G1": "confidence curve", "G2": "a threshold to drag", "G3": "reliability", "G4": "calibration", "G5": "scheduler",
    "G6": "cost curve", "G7": "why stopping early is lossless", "G8": "wasted rows", "K1": "chapters", "K2": "bets",
    "K3": "numbers in sentences", "K4": "term cards", "K5": "answers to named doubts", "K6": "depths",
    "K7": "symbol and picture light each other", "L1": "two languages", "L2": "CJK, right-to-left, bytes", "M1": "links",
    "M2": "trace files", "M3": "one file that plays offline", "M4": "pictures", "M5": "teacher mode", "N1": "inks",
    "N2": "without colour", "N3": "reduced motion", "N4": "text log", "N5": "tokens by keyboard", "N6": "phones",
}  # fmt: skip
TO_COME = dict.fromkeys(("D4", "D5", "D6", "D7"), "comes with the sequential drafters")
TO_COME |= dict.fromkeys(("G4", "G5", "G6", "G7"), "comes with the scheduler")


def main() -> int:
    tests = carriers(r"([a-n])(\d\d?)", lambda letter, number: f"{letter.upper()}{number}")
    for row, words in FEATURES.items():
        print(f"{row} {words}: {', '.join(tests.get(row, [])) or TO_COME.get(row, 'MISSING')}")
    proved = [row for row in FEATURES if row in tests]
    missing = [row for row in FEATURES if row not in tests]
    print(f"{len(FEATURES)} rows, {len(proved)} proved, missing: {', '.join(missing) or 'none'}")
    return any(row not in TO_COME for row in missing)


if __name__ == "__main__":
    sys.exit(main())
