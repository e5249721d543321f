"""The experiment over many prompts: what is counted, what is timed, and that every figure can be made again from the file."""

import json
import sys
from pathlib import Path

import pytest
import torch
from toys import save, tiny

from engine import experiment, metrics
from engine.experiment import Round, counts, read_prompts, speed_up, table, total
from engine.metrics import repeats_at


def test_output_counts_up_to_its_first_loop():
    assert repeats_at(list(range(20))) == 20
    assert repeats_at([*range(8), *range(8), 5]) == 16
    assert repeats_at([0, *range(1, 9), 9, *range(1, 9)]) == 18
    assert repeats_at([7] * 12) == 9
    assert repeats_at([]) == 0


def test_rounds_behind_a_loop_and_the_prompts_round_are_left_out():
    kept, refused = [(1, "kept"), (2, "kept")], [(1, "kept"), (2, "rejected"), (3, "not_reached")]
    rounds = [Round([0], [], {}), Round([1, 2, 3], kept, {}), Round([4, 5], refused, {})]
    told = counts(rounds)
    assert (told["passes"], told["tokens"], told["kept"], told["reached"], told["offered"]) == (
        2,
        5,
        [2, 1],
        [2, 2],
        [2, 2, 1],
    )
    spent = {"draft": 1.0, "target": 2.0}
    looping = [
        Round([0], [], spent),
        *[Round([1, 1, 1], kept, spent) for _ in range(6)],
    ]  # the 8-gram returns at token 10
    told = counts(looping)
    assert (told["passes"], told["tokens"], told["seconds"], told["draft_seconds"]) == (3, 9, 9.0, 3.0)
    assert (
        counts([Round(list(range(11)), [], {}), *looping[1:]])["tokens"] == 9
    )  # of the last round only what came before


def rows(*pairs):
    return [{"plain": {"tokens": 10, "seconds": slow}, "x": {"tokens": 10, "seconds": quick}} for slow, quick in pairs]


def test_speed_up_is_of_all_prompts_together_with_an_interval_over_prompts():
    assert speed_up(rows((2.0, 1.0), (2.0, 1.0), (3.0, 1.5)), "x") == (2.0, 2.0, 2.0)
    ratio, low, high = speed_up(rows((1.0, 2.0), (1.0, 0.8), (1.0, 2.2)), "x")
    assert ratio == pytest.approx(3 / 5) and low < ratio < high


def test_intervals_are_wilsons():
    assert metrics.interval(0, 10) == pytest.approx((0, 0.2775), abs=1e-3)
    assert metrics.interval(45, 100) == pytest.approx((0.3561, 0.5476), abs=1e-3)
    low, high = metrics.interval(10, 10)
    assert high == 1.0 and low == pytest.approx(0.7225, abs=1e-3)


def test_prompts_come_from_all_categories_alike(tmp_path):
    file = tmp_path / "questions.jsonl"
    told = [{"question_id": i, "category": "ab"[i > 5], "turns": [f"q{i}"]} for i in range(12)]
    file.write_text("\n".join(map(json.dumps, told)))
    assert [e["id"] for e in read_prompts(file, 6)] == [0, 6, 1, 7, 2, 8]
    file.write_text("plain text\n\nand more\n")
    assert [e["text"] for e in read_prompts(file, 5)] == ["plain text", "and more"]


def test_the_file_holds_what_the_table_says(tmp_path, monkeypatch, capsys):
    folder = save(tmp_path / "target", tiny(0, vocab=257, dtype=torch.float32))
    file = tmp_path / "prompts.txt"
    file.write_text("abcabcabc\nxyzxyz\nhello\n")
    out = tmp_path / "out" / "report.json"
    arguments = ["--prompts", str(file), "--out", str(out), "--target", folder, "--max-new", "16", "--rows", "2"]
    monkeypatch.setattr(sys, "argv", ["experiment", *arguments, "--variants", "plain", "ngram", "--dtype", "float32"])
    experiment.main()
    report = json.loads(out.read_text())
    printed = capsys.readouterr().out
    assert set(report["runs"]) == {"0", "1"} and len(report["runs"]["1"]) == len(report["prompts"]) == 3
    for temperature, runs in report["runs"].items():
        sums = total(runs, "ngram")
        assert sums["tokens"] >= sums["passes"] and sums["accepted"] == sum(sums["kept"])
        assert f"| ngram | {sums['tokens'] / sums['passes']:.2f} (" in printed
        assert all(r["plain"]["tokens"] == r["plain"]["passes"] for r in runs), temperature
    assert "\n".join(table(report)) in printed
    assert all(
        abs(r["plain"]["tokens"] - r["ngram"]["tokens"]) < 9 for r in report["runs"]["0"]
    )  # the round of the prompt


@pytest.mark.parametrize(
    ("text", "more", "words"),
    [(None, [], "No such file"), ("\n", [], "holds no prompt"), ('{"id": 1}', [], "has no turns"),
     ("hi", ["--temperatures", "0"], "temperature 0 is always there")],
)  # fmt: skip
def test_what_cannot_run_is_one_line(tmp_path, monkeypatch, text, more, words):
    if text is not None:
        (tmp_path / "prompts").write_text(text)
    arguments = ["--prompts", str(tmp_path / "prompts"), "--out", str(tmp_path / "o"), *more]
    monkeypatch.setattr(sys, "argv", ["experiment", *arguments])
    with pytest.raises(SystemExit, match=f"stopped: .*{words}"):
        experiment.main()


def test_empty_counts_add_up():
    assert metrics.EMPTY["passes"] == 0 and counts([Round([1], [], {})])["passes"] == 0


def test_the_readme_says_what_the_recorded_experiment_holds():
    """Every line of both tables can be made again from the raw counts in assets."""
    root = Path(__file__).parents[1]
    readme = (root / "README.md").read_text(encoding="utf-8")
    report = json.loads((root / "assets" / "experiments" / "methods.json").read_text())
    assert len(report["prompts"]) >= 60 and "engine.experiment" in report["command"]
    for line in table(report):
        assert line in readme, line
