"""What the browser tests need: the page in this process, Debian's Chromium, a page that must stay offline, toy traces.

A toy trace is written by hand and says so on its badge: a vocabulary of strings, one dictionary per round.
"""

import json
import re
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import expect

from engine import metrics

HEADER = {
    "type": "run", "schema": 1, "id": "toy", "method": "ngram", "knobs": {"k": 3}, "rule": "exact", "lossless": True,
    "models": {"target": {"name": "toy", "weights": "none", "hash": "0", "parameters": 0, "dtype": "float32", "device": "cpu"},
               "draft": None},
    "tokenizer_hash": "toy", "sampling": {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "max_new": 64,
                                          "seed": 0, "stop": [], "stop_strings": []},
    "seed": 0, "machine": "none", "badge": "toy", "started": "2026-01-01T00:00:00+00:00",
    "prompt": {"text": "toy prompt", "raw": False, "ids": [0]},
}  # fmt: skip
END = {
    "type": "end", "done": "length", "hash": "0", "seconds": {"draft": 0.001, "target": 0.01, "verify": 0.002, "other": 0.001},
    "decoding": {"tokens": 1, "seconds": 1.0, "tokens_per_second": 1.0},
    "plain": {"tokens": 10, "seconds": 1.0, "tokens_per_second": 10.0},
}  # fmt: skip


def toy(rounds: list[tuple[list, list, object]], **header) -> list[dict]:
    """Records from (drafted pieces, their verdicts, the target's own piece or None) per round."""
    ids: dict[str, int] = {}
    records: list[dict] = [{**HEADER, **header}]
    counts, clock = metrics.EMPTY, 0.0
    for i, (pieces, verdicts, own) in enumerate(rounds):
        texts: dict[str, object] = {}

        def token(piece, texts=texts):
            number = ids.setdefault(json.dumps(piece), len(ids))
            texts[str(number)] = piece
            return number

        draft, verify, emit = [], [], []
        for slot, (piece, verdict) in enumerate(zip(pieces, verdicts, strict=True)):
            x, other, kept = token(piece), token("other"), verdict == "kept"
            p = 0.75 if kept else 0.25
            draft.append({"slot": slot, "parent": slot - 1 if slot else None, "pass": slot, "token_id": x, "depth": slot + 1,
                          "q_tok": 0.5, "q_top": [[x, 0.5], [other, 0.25]], "q_rest": 0.25, "q_own_tok": 0.5,
                          "q_own_top": [[x, 0.5], [other, 0.25]], "q_own_rest": 0.25, "q_rank": 1})  # fmt: skip
            verify.append({"slot": slot, "p_tok": p, "p_top": [[x, p], [other, 1 - p]], "p_rest": 0.0, "p_own_tok": p,
                           "p_own_top": [[x, p], [other, 1 - p]], "p_own_rest": 0.0, "p_rank": 1, "p_entropy": 0.56,
                           "p_gap": 1.1, "ratio": min(1.0, p / 0.5), "verdict": verdict,
                           "u": None if verdict == "not_reached" else 0.3 if kept else 0.8})  # fmt: skip
            if kept:
                emit.append({"token_id": x, "maker": "draft", "slot": slot})
        final = None
        if own is not None:
            maker = "plain" if not pieces else "correction" if "rejected" in verdicts else "bonus"
            x = token(own)
            emit.append({"token_id": x, "maker": maker, "slot": None})
            final = {"token_id": x, "u": 0.4, "p_top": [[x, 0.75], [token("other"), 0.25]], "p_rest": 0.0, "p_entropy": 0.56,
                     "p_gap": 1.1, "p_own_top": [[x, 0.75], [token("other"), 0.25]], "p_own_rest": 0.0}  # fmt: skip
            if maker == "correction":
                final |= {"residual_top": [[x, 1.0]], "residual_rest": 0.0}
        counts = metrics.count(counts, list(enumerate(verdicts, 1)), len(emit))
        times = {"t_draft": 2.0 * len(draft), "t_target": 10.0, "t_verify": 1.0, "t_other": 0.5}
        records.append({"type": "round", "i": i, "prefix_len": 1, "t0": clock, **times, "rows": 1 + len(draft), "draft": draft,
                        "verify": verify, "emit": emit, "final": final, "texts": texts, "note": None,
                        "counts": counts,
                        "done": "length" if i == len(rounds) - 1 else None})  # fmt: skip
        clock += sum(times.values())
    return [*records, END]


def sure(records: list[dict]) -> list[dict]:
    """The same records with a confidence for every guess, falling along the draft."""
    for record in records:
        for d in record.get("draft", ()):
            d["confidence"] = 0.9 - 0.2 * d["slot"] - 0.01 * (record["i"] % 20)
    return records


def keep(records: list[dict], folder: Path, name: str = "toy.jsonl") -> Path:
    """Write records to a trace file."""
    path = folder / name
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


PLAIN = [
    ([], [], "Once"),
    ([" upon", " a", " time"], ["kept", "kept", "kept"], ","),
    ([" there", " is", " a"], ["kept", "rejected", "not_reached"], " was"),
    ([" a", "\n", "\t"], ["rejected", "not_reached", "not_reached"], " little"),
    ([" fox"], ["kept"], "\n"),
    ([[240, 159], [166], [138]], ["kept", "kept", "kept"], " end"),
]
BLOCK = [  # a block drafter: it says how sure it is
    ([], [], "Once"),
    ([" upon", " a", " time"], ["kept", "kept", "rejected"], ","),
    ([" there", " is"], ["rejected", "not_reached"], " was"),
    ([" a", " small", " fox"], ["kept", "rejected", "not_reached"], " red"),
]
HOSTILE = ["<img src=x onerror=alert(1)>", "${7*7}", "{{x}}", "`tick`", "</script>", "<style>body{display:none}</style>",
           "C:\\users", "<|im_end|>", "\u202eabc", "<think>"]  # fmt: skip


# ---- serving ---------------------------------------------------------------------------------------------------------


def tiny_model(folder: Path) -> Path:
    """A random two-layer Llama over single bytes, in Hugging Face layout: live runs without a download."""
    import torch
    from test_vocabulary import byte_level
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    # Twelve layers: a long answer then takes seconds, so that there is something to stop.
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 12, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=257, max_position_embeddings=4096, eos_token_id=None, bos_token_id=None, **shape)
    LlamaForCausalLM(config).save_pretrained(folder)
    byte_level().save_pretrained(folder)
    return folder


@contextmanager
def serving(traces: Path | None = None):
    """The real page at a local address; with a folder, its first trace plays instead of the bundled one."""
    from app import sources, ui

    bundled = sources.TRACES
    sources.TRACES = traces or bundled
    page = ui.build()
    sources.TRACES = bundled
    _, url, _ = page.queue(max_size=16).launch(
        **ui.launch(), server_name="127.0.0.1", prevent_thread_lock=True, quiet=True
    )
    try:
        yield url.rstrip("/")
    finally:
        page.close()


# ---- what a visitor does --------------------------------------------------------------------------------------------------


def records(rounds):
    return sure(toy(rounds, method="dspark"))


def scrub(page, share):
    """Put the playhead somewhere, by the range input."""
    page.evaluate(
        """share => { const r = document.querySelector(".tape-scrub"); r.value = Math.round(r.max * share);
        r.dispatchEvent(new Event("input", { bubbles: true })); }""",
        share,
    )


def ready(page):
    expect(page.locator(".status")).to_contain_text("Ready", timeout=60_000)
    return page


def ask(page, prompt, tokens=40, method="ngram"):
    """Fill in a prompt and run it."""
    page.locator("#prompt textarea").fill(prompt)
    page.get_by_label("Longest answer, in tokens").first.fill(str(tokens))
    page.get_by_label("Longest answer, in tokens").first.press("Tab")
    page.get_by_role("radio", name=re.compile(f"^{method}")).check()
    page.get_by_role("button", name="Run", exact=True).click()


def finished(page, timeout=60_000):
    """Wait until a live run has ended and its playhead has arrived."""
    page.wait_for_selector("#run:not([disabled])", timeout=timeout)
    expect(page.locator(".tape-play")).to_contain_text("Replay", timeout=timeout)


def view(page, name):
    """Open one of the views below the tape."""
    page.locator(f".view-tab[data-view={name}]").click()
    return page.locator(f"#view-{name}")
