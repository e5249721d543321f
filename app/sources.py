"""Where the page's messages come from: live() runs the engine, recorded() reads a file; the page cannot tell which.

This is the only file that imports the engine's running parts, and only inside functions: the page is served, and its
recording plays, before torch is imported. The engine serves one run at a time; further visitors stand in line.
"""

import json
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from engine import metrics, trace

TRACES = Path(__file__).parents[1] / "assets" / "traces"
GALLERY = TRACES.parent / "gallery"  # prompt.method.jsonl.gz, written by engine.gallery
EXPERIMENT = TRACES.parent / "experiments" / "methods.json"
METHODS = ("plain", "ngram", "lm", "dflash", "dspark")
RULES = ("exact", "match", "tolerance", "typical")
LESSONS = (*RULES, "spike", "resample", "argmax", "greedy")  # ways of checking one guess, see engine/lessons.py
KNOBS = {  # which settings a method listens to
    "plain": (), "ngram": ("k",), "lm": ("k",), "dflash": ("k", "sampled", "threshold"),
    "dspark": ("k", "markov", "confidence", "threshold"),
}  # fmt: skip
SWITCHES = ("sampled", "markov", "confidence")
BLOCK, BLOCKS = 7, ("dflash", "dspark")  # most guesses of the block drafters that travel with the program
PROMPT = 2000  # characters
LIMITS = {  # least, most, whole
    "k": (1, 16, True),
    "threshold": (0, 1, False),
    "temperature": (0, 2, False),
    "top_p": (0.01, 1, False),
    "seed": (0, 2**53 - 1, True),  # what a browser can hold exactly
    "max_new": (1, 512, True),
    "top_k": (0, 100_000, True),
    "min_p": (0, 1, False),
}
CHOICES = {"method": METHODS, "rule": RULES}
FREE = ("rule", *LIMITS, *SWITCHES)  # settings that belong to no prompt and no method
PREFIX = (2, 1000)  # tokens behind which every method can be asked to guess
LAW = (2, 16)  # tokens of a small pair of laws
DRAWS = 1000  # most guesses drawn for one request
DEFAULTS = {
    "method": "ngram", "k": 4, "sampled": False, "markov": True, "confidence": True, "threshold": 0, "temperature": 0,
    "top_p": 1, "max_new": 96, "seed": 0, "rule": "exact", "top_k": 0, "min_p": 0,
}  # fmt: skip
BREATH = 1.5  # seconds between a look at the page and the start of the engine
BASELINE = 24  # tokens of plain decoding, timed after each run

PATIENCE = 30  # seconds that others wait for a run that stands still
PERIOD = 0.1  # seconds between two messages
MESSAGE = 32_000  # bytes of a message while the run is going on
WHOLE = 1_000_000  # bytes of the last one


# ---- what may be asked -----------------------------------------------------------------------------------------------


def problems(settings: dict) -> dict[str, tuple[str, dict]]:
    """What is wrong with the settings: {name: (key of the sentence, what to fill in)}; empty when all is well."""
    found = {}
    prompt = settings["prompt"]
    if not isinstance(prompt, str):
        found["prompt"] = "bad_prompt_type", {}
    elif len(prompt) > PROMPT:
        found["prompt"] = "bad_prompt_long", {"given": len(prompt), "most": PROMPT}
    elif not prompt.strip():
        found["prompt"] = "bad_prompt_empty", {}
    found |= {name: wrong for name in ("method", *FREE) if (wrong := _setting_problem(name, settings[name]))}
    if settings["method"] in BLOCKS and "k" not in found and settings["k"] > BLOCK:
        found["k"] = "bad_k_block", {"given": settings["k"], "method": settings["method"], "most": BLOCK}
    return found


def _setting_problem(name: str, value) -> tuple[str, dict] | None:
    """What is wrong with one setting; its name is one of FREE, or "method"."""
    if name in CHOICES:
        known = CHOICES[name]
        return None if value in known else ("bad_choice", _facts(name, value, most=", ".join(known)))
    if name in SWITCHES:
        return None if isinstance(value, bool) else ("bad_switch", _facts(name, value))
    return _number_problem(name, value, *LIMITS[name])


def _number_problem(name: str, value, least, most, whole: bool = True) -> tuple[str, dict] | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and least <= value <= most and not (whole and value != int(value)):  # NaN fails the comparison
        return None
    return "bad_whole" if whole else "bad_number", _facts(name, value, least=least, most=most)


def _facts(name: str, value, **more) -> dict:
    return {"name": name, "given": _short(value), **more}


def guess_problem(ids, prompt, methods, settings) -> tuple[str, dict] | None:
    """What is wrong with a request for guesses behind a prefix, as far as one can tell without a model."""
    if not isinstance(ids, list) or not PREFIX[0] <= len(ids) <= PREFIX[1]:
        given = len(ids) if isinstance(ids, list) else _short(ids)
        return "bad_prefix_size", {"given": given, "least": PREFIX[0], "most": PREFIX[1]}
    for token in ids:
        if not isinstance(token, int) or isinstance(token, bool) or token < 0:
            return "bad_prefix_id", {"given": _short(token)}
    if wrong := _number_problem("prompt", prompt, 1, len(ids)):
        return wrong
    if not isinstance(methods, list) or not methods:
        return "bad_choice", _facts("methods", methods, most=", ".join(METHODS))
    if not isinstance(settings, dict) or (odd := settings.keys() - set(FREE)):
        given = _short(settings if not isinstance(settings, dict) else sorted(odd)[0])
        return "bad_setting", {"given": given, "most": ", ".join(FREE)}
    asked = [*(("method", method) for method in methods), *settings.items()]
    return next(filter(None, (_setting_problem(name, value) for name, value in asked)), None)


def draw_problem(p, q, rule, n, seed) -> tuple[str, dict] | None:
    """What is wrong with a request for draws, the first thing found: (key of the sentence, what to fill in)."""
    for name, law in (("p", p), ("q", q)):
        if not isinstance(law, list) or not LAW[0] <= len(law) <= LAW[1]:
            return "bad_law_size", {"name": name, "least": LAW[0], "most": LAW[1]}
        for x in law:
            if not isinstance(x, int | float) or isinstance(x, bool) or not 0 <= x <= 1:  # NaN fails the comparison
                return "bad_law_entry", {"name": name, "given": _short(x)}
        if abs(sum(law) - 1) > 1e-6:
            return "bad_law_sum", {"name": name, "given": f"{sum(law):.6g}"}
    if len(p) != len(q):
        return "bad_law_pair", {"p": len(p), "q": len(q)}
    if rule not in LESSONS:
        return "bad_choice", {"name": "rule", "given": _short(rule), "most": ", ".join(LESSONS)}
    return _number_problem("n", n, 1, DRAWS) or _setting_problem("seed", seed)


def _short(value) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "…"


# ---- records as messages ---------------------------------------------------------------------------------------------


def dumps(value) -> str:
    """Compact JSON without a '<': no string of a model can look like a tag to anybody on the way."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


class _Mail:
    """The records of one run, packed as messages; the newest rounds that fit go along, so that a lost message heals."""

    def __init__(self):
        self.head, self.ids, self.rounds, self.end, self.sent = "null", "null", [], "null", 0

    def take(self, record: dict) -> None:
        if record["type"] == "run":
            prompt = {key: value for key, value in record["prompt"].items() if key != "ids"}
            self.head, self.ids = dumps({**record, "prompt": prompt}), dumps(record["prompt"].get("ids"))
        elif record["type"] == "round":
            self.rounds.append(dumps(record))
        elif record["type"] == "end":
            self.end = dumps(record)

    def unsent(self) -> int:
        """Bytes of a message that holds all rounds not yet sent."""
        return len(self.pack(len(self.rounds) - self.sent).encode())

    def pack(self, rounds: int, final: bool = False) -> str:
        tail = ",".join(self.rounds[len(self.rounds) - rounds :])
        close = f'"final":true,"ids":{self.ids}' if final else '"final":false'
        return f'{{"run":{self.head},"rounds":[{tail}],"end":{self.end},{close}}}'

    def message(self, final: bool = False) -> str:
        limit = WHOLE if final else MESSAGE
        room, count = limit - len(self.pack(0, final).encode()), 0
        for line in reversed(self.rounds):
            room -= len(line.encode()) + 1
            if room < 0:
                break
            count += 1
        self.sent = len(self.rounds)
        return self.pack(count, final)


def recorded(path: Path) -> str:
    """A run from a file as one message. What was measured then is recorded now."""
    mail = _Mail()
    for record in trace.read(path):
        if record.get("badge") == "measured":
            record["badge"] = "recorded"
        mail.take(record)
    return mail.message(final=True)


def first() -> str:
    """The bundled run that plays when the page opens; nothing if none is bundled."""
    paths = sorted(TRACES.glob("*.jsonl"))
    return recorded(paths[0]) if paths else ""


def settings_of(message: str) -> dict:
    """What the page's settings must be to repeat the run of a message; defaults where it says nothing or nothing possible."""
    head = json.loads(message)["run"] if message else {"prompt": {"text": ""}}
    told = {**head.get("sampling", {}), **head.get("knobs", {}), **head, "prompt": head["prompt"]["text"]}
    given = {name: told.get(name, value) for name, value in {"prompt": "", **DEFAULTS}.items()}
    wrong = problems(given)
    return {name: DEFAULTS.get(name, "") if name in wrong else value for name, value in given.items()}


def lanes(prompt: str) -> list[dict]:
    """The recorded runs of every method on one of the prompts, without what only a closer look needs."""
    found = []
    for method in METHODS:
        if path := _recording(prompt, method):
            head, *rounds, end = trace.read(path)
            emit = [[_written(r, e) for e in r["emit"]] for r in rounds]
            spent = [metrics.elapsed(r) for r in rounds]
            facts = {"prompt": head["prompt"]["text"], "tokens": head["sampling"]["max_new"], "hash": end["hash"]}
            facts |= {key: head[key] for key in ("method", "machine", "started", "knobs")}
            facts |= {"dtype": head["models"]["target"]["dtype"], "temperature": head["sampling"]["temperature"]}
            found.append(facts | {"rounds": [{"emit": e, "ms": ms} for e, ms in zip(emit, spent, strict=True)]})
    return found


def _written(r: dict, emitted: dict) -> list:
    """A token of the text: its piece, its id, its maker, and by how much the target's best logit led there."""
    judged = r["final"] if emitted["slot"] is None else r["verify"][emitted["slot"]]
    return [r["texts"][str(emitted["token_id"])], emitted["token_id"], emitted["maker"], judged["p_gap"]]


def recording(prompt: str, method: str) -> str:
    """One of them as a message."""
    path = _recording(prompt, method)
    return recorded(path) if path else ""


def recorded_among(prompts: Iterable[str]) -> list[str]:
    """Those of the prompts of which the gallery holds a run."""
    there = {path.name.split(".")[0] for path in GALLERY.glob("*.jsonl.gz")}
    return [prompt for prompt in prompts if prompt in there]


def _recording(prompt: str, method: str) -> Path | None:
    """Names come from visitors: they are looked up, never joined to a path."""
    name = f"{prompt}.{method}.jsonl.gz"
    return next((path for path in GALLERY.glob("*.jsonl.gz") if path.name == name), None)


def experiment() -> dict:
    """The recorded comparison of methods, the prompts of each added up: {"machine", "date", "prompts": how many, "runs":
    {temperature: {variant: counts}}}."""
    report = json.loads(EXPERIMENT.read_text(encoding="utf-8"))
    runs = {}
    for heat, rows in report["runs"].items():
        order = sorted(rows[0], key=lambda variant: (METHODS.index(variant.split(",")[0]), variant))
        runs[heat] = {variant: metrics.total(row[variant] for row in rows) for variant in order}
    return {"machine": report["machine"], "date": report["date"], "prompts": len(report["prompts"]), "runs": runs}


def messages(records: Iterable[dict]) -> Iterator[tuple[str | None, dict]]:
    """(message or None, state) pairs, at most ten messages a second; the engine waits rather than that a round is lost."""
    mail, due = _Mail(), 0.0
    for record in records:
        if record["type"] == "reading":
            yield None, {"state": "reading", "done": record["done"], "total": record["total"]}
            continue
        if record["type"] == "paused":
            yield mail.message() if mail.sent < len(mail.rounds) else None, {"state": "paused"}
            continue
        mail.take(record)
        if record["type"] == "end":
            break
        now, last = time.monotonic(), bool(record.get("done"))
        if now >= due or last or mail.unsent() > MESSAGE // 2:
            time.sleep(max(0.0, due - now))
            due = time.monotonic() + PERIOD
            yield mail.message(), {"state": "comparing" if last else "running"}
    time.sleep(max(0.0, due - time.monotonic()))
    yield mail.message(final=True), {"state": "running"}


# ---- the engine ------------------------------------------------------------------------------------------------------

_state: dict = {"state": "idle"}  # what the engine is doing, for everybody
_target = None
_starting = threading.Lock()
_begun = False
_line: deque[str] = deque()  # turns of visitors in the order in which they asked; the first one has the engine
_paused: set[str] = set()  # turns whose runs stand still


def warm(after: float = 0.0) -> None:
    """Load the model in the background, once; a failed attempt may be repeated."""
    global _begun, _state
    with _starting:
        if _begun and (after or _state["state"] != "failed"):
            return
        if not after:
            _begun, _state = True, {"state": "import"}
    timer = threading.Timer(after, warm) if after else threading.Thread(target=load)
    timer.daemon = True
    timer.start()


def load() -> None:
    """Import torch and load the target; every step is told to whoever looks at the state."""
    global _state, _target
    try:
        from engine.load import load_model
        from engine.methods import Target, build_drafter
        from engine.weights import LoadError

        target = Target(load_model(os.environ.get("SPECSCOPE_TARGET"), progress=_progress))
        ready, off = {"state": "ready", **_card(target)}, []
        for name in ("lm", "dflash", "dspark"):
            try:
                build_drafter(target, name)  # weights are read now, not inside somebody's first run
            except (ValueError, LoadError):
                off.append(name)
        if off:
            ready["off"] = ", ".join(off)
        _target, _state = target, ready
    except Exception as error:  # whatever it is, the page must say it
        _state = {"state": "failed", "reason": " ".join(str(error).split()) or type(error).__name__}


def _progress(told: dict) -> None:
    global _state
    phase, total = told["phase"], told.get("total")
    if phase == "download" and total:
        _state = {"state": "download", "percent": 100 * told["done"] // total}
    elif phase == "download":
        _state = {"state": "download_open", "megabytes": told["done"] // 1_000_000}
    else:
        _state = {"state": phase}


def _card(target) -> dict:
    loaded = target.loaded
    return {"name": loaded.name, "device": loaded.device, "dtype": loaded.dtype}


def states() -> Iterator[dict]:
    """What the engine is doing, whenever that changes, until it is ready or has failed. Looking at it starts it, a moment
    later: importing torch would take the processor from a page that is just opening."""
    warm(after=BREATH)
    last = None
    while True:
        if (state := _state) != last:
            last = state
            yield state
        if state["state"] in ("ready", "failed"):
            return
        time.sleep(0.2)


def live(settings: dict) -> Iterator[tuple[str | None, dict]]:
    """(message or None, state) pairs of one run on the engine; waits for the model and for its turn. Closing it stops the run.

    Every state carries its turn, a word that nobody else knows: pause() wants it. ValueError says why settings cannot be
    honoured, with the key and facts of problems().
    """
    if found := problems(settings):
        raise ValueError(next(iter(found.values())))
    with _turn() as turn:
        for state in _wait(turn):
            yield None, state | {"turn": turn}
        if _target is None:
            raise RuntimeError(_state.get("reason", _state["state"]))
        with closing(_records(settings)) as records:
            for message, state in messages(_held(records, turn)):
                yield message, _card(_target) | state | {"turn": turn}
        yield None, _state | {"turn": turn}


@contextmanager
def _turn() -> Iterator[str]:
    """A place in the line, until it is left."""
    turn = secrets.token_urlsafe(9)
    _line.append(turn)
    try:
        yield turn
    finally:
        _line.remove(turn)
        _paused.discard(turn)


def pause(turn: str, on: bool) -> None:
    """Let a run stand still at the end of its round, or go on. A turn that is over, or was never given, changes nothing."""
    if on and turn in _line:
        _paused.add(turn)
    else:
        _paused.discard(turn)


def _held(records: Iterator[dict], turn: str) -> Iterator[dict]:
    """The records, as long as the run is not paused: the engine works only when it is asked for the next one. A pause ends by
    itself when others have waited too long."""
    for record in records:
        yield record
        since = time.monotonic()
        while turn in _paused and record["type"] == "round" and not record["done"]:
            if len(_line) == 1:
                since = time.monotonic()
            elif time.monotonic() - since > PATIENCE:
                _paused.discard(turn)
            yield {"type": "paused"}  # again and again: only here can the run be stopped
            time.sleep(2 * PERIOD)


def _wait(turn: str) -> Iterator[dict]:
    """States while the model loads (again, if it failed) or somebody else runs."""
    warm()
    for state in states():
        if state["state"] not in ("ready", "failed"):
            yield state
    last = 0
    while (place := _line.index(turn)) > 0:
        if place != last:
            yield {"state": "queue", "place": place}
        last = place
        time.sleep(0.05)


def draws(p: list, q: list, rule: str, n: int, seed: int) -> dict:
    """n guesses from a small pair of laws, each judged by the engine's own check under a rule or a lesson's wrong one:
    {"mark", "law" and "chance" in the long run, "tokens": what came out, "kept": 1 where that was the guess}.

    ValueError carries what draw_problem() found.
    """
    if found := draw_problem(p, q, rule, n, seed):
        raise ValueError(found)
    import torch

    from engine.lessons import LESSONS as lessons

    target, drafter = (torch.tensor(law, dtype=torch.float64) / sum(law) for law in (p, q))
    lesson = lessons[rule]
    tokens, kept = zip(*lesson.draws(target, drafter, int(n), int(seed)), strict=True)
    law, chance = lesson.law(target, drafter).tolist(), lesson.chance(target, drafter)
    return {"mark": lesson.mark, "law": law, "chance": chance, "tokens": list(tokens), "kept": [int(k) for k in kept]}


def guesses(ids: list, prompt: int, methods: list, settings: dict, target: str) -> list[dict]:
    """What every method guesses behind the same tokens, of which the first `prompt` are the prompt, and what becomes of it: see
    guess_here() in engine/run.py. Waits for its turn. target: hash of the model to which the ids belong.

    ValueError carries what guess_problem() found, or why this engine cannot do it.
    """
    if found := guess_problem(ids, prompt, methods, settings):
        raise ValueError(found)
    if _target is None or _state["state"] != "ready":
        raise ValueError(("guess_not_ready", {}))
    if target != _target.loaded.hash:
        raise ValueError(("guess_other_model", {"name": _target.loaded.name}))
    size = _target.loaded.vocabulary.size
    if (odd := max(ids)) >= size:
        raise ValueError(("bad_prefix_id", {"given": odd}))
    from engine.run import guess_here

    knobs = {name: _knobs(name, settings) for name in methods}
    with _turn() as turn:
        for _ in _wait(turn):
            pass
        return list(guess_here(_target, ids, int(prompt), knobs, _sampling(settings), settings.get("rule", "exact")))


def _knobs(method: str, settings: dict) -> dict:
    """What the settings ask of one method; a block drafter guesses no more than its block holds."""
    knobs = {name: settings[name] for name in KNOBS[method] if name in settings}
    if "k" in knobs:
        knobs["k"] = min(int(knobs["k"]), BLOCK) if method in BLOCKS else int(knobs["k"])
    return knobs


def _sampling(settings: dict):
    """The engine's own word for the settings that say how tokens are chosen."""
    from engine.types import Sampling

    whole = {name: LIMITS[name][2] for name in ("temperature", "top_k", "top_p", "min_p", "max_new", "seed")}
    return Sampling(**{n: int(settings[n]) if w else float(settings[n]) for n, w in whole.items() if n in settings})


def _records(settings: dict) -> Iterator[dict]:
    from engine.run import run

    method, sampling = settings["method"], _sampling(settings)
    return run(
        _target, settings["prompt"], method, sampling, rule=settings["rule"], baseline=BASELINE, **_knobs(method, settings)
    )  # fmt: skip
