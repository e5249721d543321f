"""Which publicly reported bugs of other engines are covered here: ids, the tests that carry them, what is missing.

    python tests/known_bugs.py

A test covers a report when its name carries the report's id (test_e24_...). Exit code 1 if one is neither covered nor excused.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

REPORTS = {
    "E02": "n-gram copies an end-of-text token out of the prompt",
    "E03": "no end-of-text token configured",
    "E04": "residual built wrongly, or empty",
    "E07": "stop string inside a long accepted run, or split over two rounds",
    "E08": "minimum length off by one over draft rows",
    "E10": "one-token prompt",
    "E12": "argmax draft with a soft-max q",
    "E13": "a draft that ignores temperature is not by itself a bug",
    "E14": "deterministic siblings with q = 1",
    "E15": "top-p with a tree crashes on shape",
    "E17": "processors not applied at every draft position",
    "E18": "a penalty accepted but ignored",
    "E20": "probabilities changed in place",
    "E21": "NaN logits become an impossible token",
    "E22": "seed not honoured",
    "E23": "edge values of top-p, top-k and temperature",
    "E24": "near-ties in 16 bit",
    "E25": "exact ties broken differently",
    "E26": "prompt pass split differently",
    "E28": "n-gram changes greedy text",
    "E31": "sliding-window layers",
    "E32": "recurrent targets cannot be cropped",
    "E33": "stale rows in a static cache",
    "E34": "feature drafter's cache built from its own guesses",
    "E36": "k changes by itself",
    "E40": "a drafter's own output matrix replaced by the target's",
    "E41": "feature layers guessed",
    "E42": "feature layer off by one",
    "E45": "block seeded one position early",
    "E46": "block mask, tied output matrix, label offsets",
    "E47": "family chosen by name",
    "E48": "only the first place of a block is accepted",
    "E60": "matches behind the first mismatch counted",
    "E61": "undefined averages",
    "E62": "probabilities reported as 1",
    "E63": "negative or empty rounds",
    "E64": "asked for speculation, silently got plain",
}  # fmt: skip
EXCUSED: dict[str, str] = {}


def carriers(pattern: str, name: Callable[..., str]) -> dict[str, list[str]]:
    """Id -> the tests whose names carry it: parts of a test's name that match the pattern, named by its groups."""
    found: dict[str, list[str]] = {}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        for test in re.findall(r"^\s*(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.M):
            for match in re.finditer(rf"(?<=_){pattern}(?=_)", test):
                found.setdefault(name(*match.groups()), []).append(f"{path.name}::{test}")
    return found


def covered() -> dict[str, list[str]]:
    """Report id -> names of the tests that carry it."""
    return carriers(r"e(\d\d)", "E{}".format)


def missing() -> list[str]:
    return [report for report in REPORTS if report not in covered() and report not in EXCUSED]


def main() -> int:
    tests = covered()
    for report, words in REPORTS.items():
        print(f"{report} {words}: {', '.join(tests.get(report, [])) or EXCUSED.get(report, 'MISSING')}")
    known = sum(report in tests for report in REPORTS)
    print(f"{len(REPORTS)} reports, {known} covered, {len(EXCUSED)} excused, missing: {missing() or 'none'}")
    return bool(missing())


if __name__ == "__main__":
    sys.exit(main())
