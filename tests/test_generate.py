"""The command line, on a tiny model in a folder: every flag reaches the engine, every mistake is one line and exit code 2."""

import json

import pytest
import torch
from toys import save, tiny

from engine.generate import main


@pytest.fixture(scope="module")
def models_(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    build = dict(vocab=257, spread=0.35, dtype=torch.float32)
    return (
        save(root / "target", tiny(0, **build)),
        save(root / "draft", tiny(1, **build)),
        save(root / "odd", tiny(1, **build)),
    )


@pytest.fixture
def call(models_, capsys):
    def call(*arguments, target=True):
        given = [*arguments] + (["--target", models_[0]] if target else [])
        try:
            code = main(given)
        except SystemExit as stop:
            code = stop.code
        out, err = capsys.readouterr()
        return code, out, err

    return call


def ask(call, *arguments):
    code, out, err = call("--prompt", "abcabcabc", "--max-new", "20", "--dtype", "float32", "--json", *arguments)
    assert code == 0, err
    return json.loads(out.splitlines()[-1])


def test_json_is_the_last_line_and_adds_up(call, models_):
    for method, extra in (("plain", ()), ("ngram", ()), ("lm", ("--draft", models_[1]))):
        told = ask(call, "--method", method, *extra)
        assert sum(told["committed"]) == len(told["ids"]) == 20
        assert len(told["committed"]) == told["rounds"] == told["target_passes"]
        assert told["accepted"] <= told["tested"] <= told["drafted"]
        assert set(told["seconds"]) == {"draft", "target", "verify", "other"}
        assert (told["method"], told["rule"], told["dtype"], told["device"]) == (method, "exact", "float32", "cpu")
        assert told["ids"] == ask(call)["ids"]


def test_e64_every_flag_reaches_the_engine(call, models_):
    plain = ask(call, "--temperature", "1", "--seed", "3")
    assert (
        plain["ids"]
        == ask(call, "--temperature", "1", "--seed", "3")["ids"]
        != ask(call, "--temperature", "1", "--seed", "4")["ids"]
    )
    assert (
        ask(call, "--temperature", "1", "--top-k", "1")["ids"]
        == ask(call)["ids"]
        == ask(call, "--temperature", "1", "--top-p", "0")["ids"]
    )
    assert ask(call, "--temperature", "1", "--min-p", "1")["ids"] == ask(call)["ids"]
    told = ask(call, "--method", "lm", "--draft", models_[1], "--k", "2", "--rule", "match")
    assert (told["k"], told["rule"], told["lossless"], told["draft"]) == (2, "match", True, "draft") and told[
        "drafted"
    ] > 0
    assert ask(call, "--method", "ngram", "--rule", "typical")["lossless"] is False
    assert ask(call, "--method", "ngram", "--n", "1")["ids"] == ask(call)["ids"]
    text = ask(call)["text"]
    stopped = ask(call, "--stop", "zzzz", text[4:6])
    assert stopped["done"] == "stop_string" and stopped["text"] == text[: text.index(text[4:6]) + 2]
    assert (
        ask(call, "--baseline", "3")["plain"] is None
        and ask(call, "--method", "ngram", "--baseline", "3")["plain"]["tokens"] == 3
    )
    assert ask(call, "--dtype", "bfloat16")["dtype"] == "bfloat16"


def test_text_streams_and_the_end_line_tells_the_numbers(call):
    code, out, _ = call("--prompt", "abcabc", "--max-new", "12", "--method", "ngram", "--baseline", "4")
    assert code == 0 and "tokens per pass" in out and "tested" in out and "tok/s" in out
    assert ("slower" in out) != ("faster" in out)
    assert out.startswith(ask(call, "--max-new", "12", "--prompt", "abcabc")["text"][:6]) or "\ufffd" in out


def test_rounds_print_one_line_each(call):
    code, out, _ = call("--prompt", "abcabc", "--max-new", "12", "--rounds", "--method", "ngram")
    lines = out[: out.index("-" * 40)].splitlines()
    assert code == 0 and [int(line.split()[0]) for line in lines] == list(range(len(lines)))


def test_p1_the_trace_file_is_the_run(call, tmp_path):
    from engine import trace

    told = ask(call, "--method", "ngram", "--trace", str(tmp_path / "run.jsonl"))
    records = trace.read(tmp_path / "run.jsonl")
    assert [e["token_id"] for r in records if r["type"] == "round" for e in r["emit"]] == told["ids"]
    assert records[-1]["hash"] == told["hash"]


def test_a_prompt_file_and_a_raw_prompt(call, tmp_path):
    path = tmp_path / "prompt.txt"
    path.write_text("abcabcabc", encoding="utf-8")
    code, out, _ = call("--prompt-file", str(path), "--max-new", "20", "--dtype", "float32", "--json", "--raw")
    assert code == 0 and json.loads(out)["ids"] == ask(call)["ids"]


BAD = {
    "unknown method": (["--method", "magic"], "choose one of plain, ngram, lm, dflash, dspark"),
    "unknown rule": (["--rule", "best"], "choose one of exact"),
    "k of zero": (["--method", "ngram", "--k", "0"], "from 1 to 64"),
    "k of a million": (["--method", "ngram", "--k", "1000000"], "from 1 to 64"),
    "k of 2.5": (["--k", "2.5"], "invalid int"),
    "k for plain": (["--k", "4"], "plain has no k"),
    "n for lm": (["--method", "lm", "--n", "4"], "lm has no n"),
    "negative temperature": (["--temperature", "-1"], "from 0 to 100"),
    "temperature of nan": (["--temperature", "nan"], "from 0 to 100"),
    "no tokens": (["--max-new", "0"], "1 or more|from 1"),
    "empty stop": (["--stop", ""], "stop string"),
    "lm without weights": (["--method", "lm"], "no weights for target"),
    "dspark without weights": (["--method", "dspark"], "engine.training --methods dspark"),
    "draft for ngram": (["--method", "ngram", "--draft", "x"], "lm, dflash, dspark"),
    "a draft that is no drafter": (["--method", "dflash", "--draft", "/nowhere/at/all"], "nowhere"),
    "threshold of two": (["--method", "dspark", "--threshold", "2"], "from 0.0 to 1.0"),
    "a Markov head for lm": (["--method", "lm", "--no-markov"], "lm has no markov"),
    "draft that is not there": (["--method", "lm", "--draft", "/nowhere"], "There is no folder"),
    "unknown dtype": (["--dtype", "int3"], "float32"),
    "unknown device": (["--device", "abacus"], "cpu"),
    "unknown flag": (["--frequency-penalty", "1"], "unrecognized"),
    "folder for a trace": (["--trace", "/nowhere/run.jsonl"], "nowhere"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_2(call, case):
    import re

    arguments, words = BAD[case]
    code, out, err = call("--prompt", "abc", *arguments)
    assert code == 2 and len(err.strip().splitlines()) == 1 and re.search(words, err), err
    assert "Traceback" not in err and not out


def test_no_prompt_an_empty_one_a_missing_file_and_an_unknown_target(call):
    for arguments in (
        [],
        ["--prompt", "a", "--prompt-file", "b"],
        ["--prompt-file", "/nowhere.txt"],
        ["--prompt", "", "--raw"],
    ):
        code, out, err = call(*arguments)
        assert code == 2 and len(err.strip().splitlines()) == 1, err
    code, _, err = call("--prompt", "a", "--target", "/no/such/model", target=False)
    assert code == 2 and "/no/such/model" in err


def test_e38_a_draft_with_another_vocabulary_is_refused_by_the_first_token_that_differs(call, models_, tmp_path):
    import pathlib
    import shutil

    folder = tmp_path / "odd"
    shutil.copytree(models_[2], folder)
    file = pathlib.Path(folder / "tokenizer.json")
    told = json.loads(file.read_text())
    table = told["model"]["vocab"]
    (a, i), (b, j) = list(table.items())[40], list(table.items())[41]
    table[a], table[b] = j, i
    file.write_text(json.dumps(told))
    code, _, err = call("--prompt", "abc", "--method", "lm", "--draft", str(folder))
    assert code == 2 and f"Token {min(i, j)} " in err
