"""A run as a file and as a stream: one header line, one line per round, one end line. JSON lines, schema 1.

`describe(step, ...)` turns one engine Step into the JSON-able dict below, outside the timed region. Live page, recorded
page, notebook and file all read exactly this, so nobody can tell live from replay. Every chart is a fold over it.

Conventions
- ids are token ids; `texts` maps every id that a round mentions (as a JSON string key) to its piece: a string when the
  token is whole UTF-8, else a list of byte values (a part of a character, e.g. [240, 159]).
- times are milliseconds on the run's own clock, which runs only inside the engine: `t0` of a round is the sum of the
  rounds before it. t_draft + t_target + t_verify + t_other is the round's wall time.
- `*_top` are [[id, probability], ...] in falling order, `*_rest` is the mass of everything else; together they sum to 1.
- p is the target's, q the drafter's distribution after temperature, top-k, top-p and min-p: what decides.
  `p_own_*` and `q_own_*` are the models' own softmax at temperature 1: what they think. A point mass has q_tok 1.
- `q_base_*` is the drafter's own softmax before its Markov head, `bias` what that head added to the token's logit.

header  {"type": "run", "schema": 1, "id", "method", "knobs": {"k": 4, ...}, "rule", "lossless",
         "models": {"target": {"name", "weights", "hash", "parameters", "dtype", "device"}, "draft": {same} | null},
         "tokenizer_hash", "sampling": {"temperature", "top_k", "top_p", "min_p", "max_new", "seed", "stop": [ids],
         "stop_strings": [...]}, "seed", "machine", "badge": "measured" | "recorded" | "toy", "started": ISO 8601,
         "prompt": {"text", "raw", "ids": [...] | absent where a page saved a run that had not ended},
         "sees": what guesses are made from | absent in older traces: {"inputs": any of "text", "features" (of the tapped
                 layers), "anchor" (the last token), "masks", "guesses" (its own, before this one), "taps": [decoder layers of
                 the target, from 0], "layers": how many there are, "slots": input slots of a block, the anchor's among them |
                 absent, "anchor_guesses": whether the anchor's slot guesses the first token | absent}}
round   {"type": "round", "i", "prefix_len", "t0", "t_draft", "t_target", "t_verify", "t_other",
         "rows": rows that the target computed; of a round that reads the prompt all stay in its cache, of any other as many
                 as there are tokens in "emit" (the last of those has no row yet: it is the next round's anchor),
         "passes": {"draft": forwards of the drafter's own net, "target": forwards of the target} | absent in older traces,
         "copied": the tokens of the span `source`, what matched and what followed it | absent,
         "draft":  [{"slot", "parent": slot | null, "pass", "token_id", "depth": 1.., "q_tok", "q_top", "q_rest",
                     "q_own_tok", "q_own_top", "q_own_rest", "q_rank", "source": [from, to] of the tokens it was copied
                     from, "matched": how many of them are the text's last words | absent, "confidence" | absent,
                     "q_base_top" | absent, "q_base_rest" | absent, "bias" | absent}],
         "verify": [{"slot", "p_tok", "p_top", "p_rest", "p_own_tok", "p_own_top", "p_own_rest", "p_rank", "p_entropy",
                     "p_gap": logit gap of the target's two best, "overlap": sum of min(p, q), the exact rule's chance of
                     keeping what this slot would hold, before its token was drawn (and no sibling refused),
                     "ratio": chance of acceptance, "u": number | null,
                     "verdict": "kept" | "rejected" | "not_reached"}],
         "emit":   [{"token_id", "maker": "draft" | "correction" | "bonus" | "plain", "slot": slot | null}],
         "final":  {"token_id", "u", "p_top", "p_rest", "p_own_top", "p_own_rest", "p_entropy", "p_gap",
                     "residual_top" | absent, "residual_rest" | absent} | null (an accepted stop token ended the round),
         "texts":  {"17": " the", "240": [240, 159]},
         "counts": {"rounds", "passes", "tokens", "drafted", "tested", "accepted", "offered": [...], "reached": [...],
                    "kept": [...]}: running totals after this round; lists by position (index 0 = first drafted token),
         "done": null | "stop" | "stop_string" | "length",
         "note": null | why nothing was drafted: "no_match" | "draft_context" | "last_token" | "low_confidence"}
end     {"type": "end", "done", "hash": of ids, trees and verdicts, "seconds": {"draft", "target", "verify", "other"},
         "decoding": {"tokens", "seconds", "tokens_per_second"}: after the prompt was read,
         "plain": {same} | null: plain decoding of the same prompt, measured right after the run}
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import platform
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from engine import metrics

if TYPE_CHECKING:
    from torch import Tensor

    from engine.types import Proposal, Step
    from engine.vocabulary import Vocabulary

SCHEMA = 1
TOP = 8  # entries of each *_top


def header(**fields) -> dict:
    """The first line of a run; the caller gives everything but id, machine and time."""
    return {
        "type": "run",
        "schema": SCHEMA,
        "id": uuid.uuid4().hex[:12],
        "machine": machine(),
        "badge": "measured",
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        **fields,
    }


@cache
def machine() -> str:
    """What this machine is, in words."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass
    return f"{name}, {os.cpu_count()} cores, {platform.system()}"


def describe(step: Step, vocabulary: Vocabulary, before: dict | None = None) -> dict:
    """One engine Step as a round record; `before` is the record of the round before it (None for the first)."""
    proposal, tokens, parents = step.proposal, step.proposal.tokens.tolist(), step.proposal.parents.tolist()
    target = _Opinions(step.logits, step.p, proposal.parents + 1, proposal.tokens)
    guesses = _guesses(proposal, tokens)
    trials = {trial.node: trial for trial in step.verdict.trials}
    overlaps = _overlaps(step, target)
    draft, verify, told = [], [], verdicts(step)
    for node, (token, parent, (depth, verdict)) in enumerate(zip(tokens, parents, told, strict=True)):
        place = {"slot": node, "parent": None if parent < 0 else parent}
        story = proposal.story[node] if proposal.story else {}
        draft.append({**place, "token_id": token, "depth": depth, **guesses[node], **story})
        judged = target.of(node, parent + 1, "p")
        q, trial = draft[node]["q_tok"], trials.get(node)
        chance = trial.chance if trial else min(1.0, judged["p_tok"] / q) if q else 0.0
        u = trial and trial.u
        told_of = {"overlap": _short(overlaps[node]), "ratio": _short(chance), "u": u, "verdict": verdict}
        verify.append({"slot": node, **judged, **told_of})
    last = before["counts"] if before else metrics.EMPTY
    times = {f"t_{phase}": round(1000 * spent, 4) for phase, spent in step.seconds.items()}
    record = {
        "type": "round",
        "i": before["i"] + 1 if before else 0,
        "prefix_len": step.start,
        "t0": round(before["t0"] + metrics.elapsed(before), 4) if before else 0.0,
        **times,
        "rows": step.rows,
        "passes": step.passes,
        "draft": draft,
        "verify": verify,
        "emit": _emitted(step),
        "final": _final(step, target),
        "done": step.done,
        "note": proposal.note or None,
    }
    if draft and "source" in draft[0]:
        record["copied"] = step.sequence.tokens[slice(*draft[0]["source"])]
    record["texts"] = {str(i): vocabulary.piece(i) for i in sorted(_mentioned(record))}
    record["counts"] = metrics.count(last, told, len(step.tokens))
    return record


def verdicts(step: Step) -> list[tuple[int, str]]:
    """(depth from 1, "kept" | "rejected" | "not_reached") of every node of a round."""
    trials = {trial.node: "kept" if trial.accepted else "rejected" for trial in step.verdict.trials}
    depth: list[int] = []
    for parent in step.proposal.parents.tolist():
        depth.append(1 if parent < 0 else depth[parent] + 1)
    return [(d, trials.get(node, "not_reached")) for node, d in enumerate(depth)]


class _Opinions:
    """A model's rows before and after warping, reduced in a few passes over [rows, vocab]. `tokens[i]` is looked up in row
    `rows[i]`. What is left are lists, so that the rest of a record costs no tensor operation."""

    def __init__(self, logits: Tensor, warped: Tensor, rows: Tensor | list[int], tokens: Tensor):
        logits = logits if logits.dtype == warped.dtype else logits.to(warped.dtype)
        values, ids = logits.topk(min(TOP, logits.shape[-1]), -1)
        peak = values[:, :1]
        shifted = (logits - peak).clamp_min_(-1e4)
        weight = shifted.exp()
        total = weight.sum(-1, keepdim=True)
        self.entropy = (total[:, 0].log() - (weight * shifted).sum(-1) / total[:, 0]).tolist()
        self.gap = (values[:, 0] - values[:, 1]).tolist()
        self.ids = ids.tolist()
        self.own_top = (weight.gather(1, ids) / total).tolist()
        self.top = warped.gather(1, ids).tolist()
        at_token = logits[rows, tokens]
        self.tok = warped[rows, tokens].tolist()
        self.own_tok = (weight[rows, tokens] / total[rows, 0]).tolist()
        self.rank = ((logits[rows] > at_token[:, None]).sum(-1) + 1).tolist()

    def row(self, row: int, letter: str) -> dict:
        """Top lists of one row under the letter p or q."""
        top = [(i, x) for i, x in zip(self.ids[row], self.top[row], strict=True) if x > 0]
        own = zip(self.ids[row], self.own_top[row], strict=True)
        out = {**_listed(letter, top), **_listed(f"{letter}_own", own)}
        if letter == "p":
            out |= {"p_entropy": _short(self.entropy[row]), "p_gap": _short(self.gap[row])}
        return out

    def of(self, i: int, row: int, letter: str) -> dict:
        """What the model thinks of token i, and its row."""
        return {
            **self.row(row, letter),
            f"{letter}_tok": _short(self.tok[i]),
            f"{letter}_own_tok": _short(self.own_tok[i]),
            f"{letter}_rank": self.rank[i],
        }


def _guesses(proposal: Proposal, tokens: list[int]) -> list[dict]:
    """Per node, what the drafter thought of its token."""
    nodes = list(range(len(tokens)))
    told: list[dict] = [{} for _ in nodes]
    if proposal.logits is not None:
        warped = proposal.logits if proposal.q is None else proposal.q
        drafter = _Opinions(proposal.logits, warped, nodes, proposal.tokens)
        told = [drafter.of(node, node, "q") for node in nodes]
    if proposal.q is None or proposal.logits is None:  # a point mass
        told = [
            t | {"q_tok": 1.0, "q_top": [[token, 1.0]], "q_rest": 0.0} for t, token in zip(told, tokens, strict=True)
        ]
    if proposal.confidence is not None:
        for node, confidence in zip(told, proposal.confidence.tolist(), strict=True):
            node["confidence"] = _short(confidence)
    if proposal.base is not None:
        before = _Opinions(proposal.base, proposal.base, nodes, proposal.tokens)
        bias = (proposal.logits - proposal.base)[nodes, proposal.tokens].tolist()
        for i, node in enumerate(told):
            own = zip(before.ids[i], before.own_top[i], strict=True)
            node |= {**_listed("q_base", own), "bias": _short(bias[i])}
    return told


def _overlaps(step: Step, target: _Opinions) -> list[float]:
    """Per node, the sum of min(p, q); a point mass overlaps with p at its token."""
    proposal = step.proposal
    if proposal.q is None or not len(proposal):
        return target.tok
    return proposal.q.minimum(step.p[proposal.parents + 1]).sum(-1).clamp_max(1).tolist()


def _emitted(step: Step) -> list[dict]:
    path = step.verdict.path
    emitted = [{"token_id": t, "maker": "draft", "slot": node} for t, node in zip(step.tokens, path, strict=False)]
    if len(step.tokens) > len(path):
        refused = bool(step.verdict.trials) and not step.verdict.trials[-1].accepted
        maker = "plain" if not len(step.proposal) else "correction" if refused else "bonus"
        emitted.append({"token_id": step.tokens[-1], "maker": maker, "slot": None})
    return emitted


def _final(step: Step, target: _Opinions) -> dict | None:
    verdict = step.verdict
    if len(step.tokens) == len(verdict.path):
        return None
    row = verdict.path[-1] + 1 if verdict.path else 0
    out = {"token_id": verdict.next_token, "u": verdict.u, **target.row(row, "p")}
    if verdict.trials and not verdict.trials[-1].accepted:
        values, ids = verdict.law.topk(min(TOP, len(verdict.law)))
        left = [(i, x) for i, x in zip(ids.tolist(), values.tolist(), strict=True) if x > 0]
        out |= _listed("residual", left)
    return out


def _listed(name: str, pairs: Iterable[tuple[int, float]]) -> dict:
    pairs = list(pairs)
    return {
        f"{name}_top": [[i, _short(x)] for i, x in pairs],
        f"{name}_rest": _short(max(0.0, 1 - sum(x for _, x in pairs))),
    }


def _short(x: float) -> float:
    return float(f"{x:.6g}")


def _mentioned(record: dict) -> set[int]:
    """Every token id in a round."""
    found = {e["token_id"] for e in record["emit"]} | {d["token_id"] for d in record["draft"]}
    found.update(record.get("copied", ()))
    for entry in (*record["draft"], *record["verify"], record["final"] or {}):
        for name, value in entry.items():
            if name.endswith("_top"):
                found.update(i for i, _ in value)
    return found


def fingerprint(head: dict, rounds: list[dict]) -> str:
    """Hash of what was decided: settings, ids, trees and verdicts. Times, probabilities and machines do not enter."""
    keys = ("method", "knobs", "rule", "sampling", "tokenizer_hash")
    told = [
        {key: _measures(head[key]) for key in keys} | {"prompt": head["prompt"]["ids"]},
        *(
            [[(d["token_id"], d["parent"]) for d in r["draft"]], [v["verdict"] for v in r["verify"]], r["emit"]]
            for r in rounds
        ),
    ]
    return digest(told)


def digest(told) -> str:
    """A short hash of what JSON can hold: of a prefix, the list of its token ids."""
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def _open(path: str | Path, mode: str) -> TextIO:
    """A text file, packed where its name ends in .gz."""
    return (gzip.open if str(path).endswith(".gz") else open)(path, mode, encoding="utf-8")


def _measures(value):
    """Settings that are measures, as float: JavaScript writes 1.0 as 1."""
    if not isinstance(value, dict):
        return value
    return {
        name: float(x) if name in ("temperature", "top_p", "min_p", "threshold") else x for name, x in value.items()
    }


def write(path: str | Path, records: Iterable[dict]) -> Iterator[dict]:
    """Pass records through and keep them in a file, line by line: what was written survives a crash."""
    with _open(path, "wt") as file:
        for record in records:
            if record["type"] in ("run", "round", "end"):
                file.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")
                file.flush()
            yield record


def read(path: str | Path) -> list[dict]:
    """All records of a file; ValueError names the line that is not one. Unknown fields are kept."""
    records = []
    with _open(path, "rt") as file:
        for number, line in enumerate(file, 1):
            try:
                record = json.loads(line)
                kind = record["type"]
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise ValueError(f"{path}, line {number} is not a trace record: {error}") from error
            if number == 1 and (kind != "run" or record.get("schema") != SCHEMA):
                raise ValueError(f"{path} does not begin with a run header of schema {SCHEMA}")
            records.append(record)
    if not records:
        raise ValueError(f"{path} is empty: it holds no run")
    return records


_HEADER = (
    "id", "method", "knobs", "rule", "lossless", "models", "tokenizer_hash", "sampling", "seed", "machine", "badge", "started",
)  # fmt: skip
_ROUND = (
    "i", "prefix_len", "t0", "t_draft", "t_target", "t_verify", "t_other", "rows", "draft", "verify", "emit", "final", "texts",
    "counts", "done", "note",
)  # fmt: skip


def validate(records: list[dict]) -> None:
    """ValueError names the first record that lacks a field or contradicts itself or those before it. Fields that are not known
    are welcome; a run that broke off has no end."""
    head, rounds = records[0], [r for r in records if r["type"] == "round"]
    end = records[-1] if records[-1]["type"] == "end" else None
    _need(
        head["type"] == "run" and all(key in head for key in _HEADER) and "text" in head["prompt"],
        "the header lacks a field",
    )
    _need(len(records) == 1 + len(rounds) + bool(end), "there is something between header, rounds and end")
    counts, clock = metrics.EMPTY, 0.0
    for i, r in enumerate(rounds):
        where = f"round {i}"
        _need(r.get("i") == i, f"{where} is missing")
        _need(all(key in r for key in _ROUND), f"{where} lacks a field")
        draft, verify, emit = r["draft"], r["verify"], r["emit"]
        _need([d["slot"] for d in draft] == [v["slot"] for v in verify] == list(range(len(draft))), f"{where}: slots")
        _need({v["verdict"] for v in verify} <= {"kept", "rejected", "not_reached"}, f"{where}: an unknown verdict")
        kept = [d["token_id"] for d, v in zip(draft, verify, strict=True) if v["verdict"] == "kept"]
        own = [e["token_id"] for e in emit if e["maker"] in ("correction", "bonus", "plain")]
        _need(
            [e["token_id"] for e in emit] == kept[: len(emit) - len(own)] + own,
            f"{where}: emitted is not what was kept",
        )
        _need(own == [r["final"]["token_id"]] if r["final"] else not own, f"{where}: the target's own token")
        _need(all(str(x) in r["texts"] for x in _mentioned(r)), f"{where}: an id without its text")
        for entry in (*draft, *verify, r["final"] or {}):
            for name in (key for key in entry if key.endswith("_top")):
                mass = sum(x for _, x in entry[name]) + entry[name[:-3] + "rest"]
                near = (
                    0.01 if "own" in name or "base" in name else 1e-4
                )  # opinions are rounded as the model's own numbers are
                _need(abs(mass - 1) < near, f"{where}: {name} and its rest sum to {mass}")
        told = [(d["depth"], v["verdict"]) for d, v in zip(draft, verify, strict=True)]
        counts = metrics.count(counts, told, len(emit))
        _need(counts == r["counts"], f"{where}: the running counts")
        _need(abs(r["t0"] - clock) < 0.01 * (i + 1), f"{where}: t0 is not the sum of the rounds before")
        clock += metrics.elapsed(r)
    if end and "ids" in head["prompt"] and head["badge"] != "toy":
        _need(end["hash"] == fingerprint(head, rounds), "the hash does not belong to these rounds")


def _need(true: bool, what: str) -> None:
    if not true:
        raise ValueError(f"not a valid trace: {what}")
