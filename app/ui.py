"""The page: layout, then wiring. build() has no side effect and needs neither weights nor torch.

Native components are created in English; their words in every language travel to the page once, in its head, and a change of
language is made there without asking the server.
"""

import json

import gradio as gr
from starlette.middleware import Middleware

from app import sources
from app.guard import Guard
from app.tape import ASSETS, Tape, viewer
from app.words import NAMES, WORDS, words

EXAMPLES = json.loads((ASSETS / "prompts.json").read_text(encoding="utf-8"))
SETTINGS = (
    "prompt", "method", "k", "temperature", "top_p", "seed", "max_new", "rule", "top_k", "min_p", "sampled", "markov",
    "confidence", "threshold", "language",
)  # fmt: skip
STYLES = ("tape", "fair", "views", "lanes", "path", "files", "ways")  # of the viewer; the page around it has its own
STATUS = '<div class="status" role="status" aria-live="polite"></div>'


class _AsGiven:
    """Hands a value on as it came: the validator's words are clearer than the bare 400 of the range checks here."""

    def preprocess(self, payload):
        return payload


class Slider(_AsGiven, gr.Slider):
    pass


class Number(_AsGiven, gr.Number):
    pass


class Radio(_AsGiven, gr.Radio):
    pass


class Checkbox(_AsGiven, gr.Checkbox):
    pass


def build() -> gr.Blocks:
    with gr.Blocks(title="SpecScope") as page:
        parts = _layout()
        _wire(page, *parts)
    return page


def launch() -> dict:
    """Everything that launch() needs beside a port."""
    return {
        "theme": _theme(),
        "head": _head(),
        "footer_links": ["api"],
        "ssr_mode": False,
        "run_history": False,
        "show_error": False,
        "app_kwargs": {"middleware": [Middleware(Guard)]},
    }


def _theme() -> gr.themes.Base:
    """Quiet native controls: no boxes in boxes, the page's own ink, system fonts."""
    fonts = {"font": ["system-ui", "sans-serif"], "font_mono": ["ui-monospace", "monospace"]}
    both = {
        "block_border_width": "0px", "block_padding": "0px", "block_shadow": "none", "block_radius": "0px",
        "form_gap_width": "20px", "layout_gap": "20px", "input_radius": "8px", "button_large_radius": "99px",
        "button_small_radius": "99px", "button_small_text_size": "13px", "button_small_padding": "4px 12px",
        "block_label_text_size": "14px", "block_info_text_size": "13px", "block_title_text_size": "14px",
        "block_title_text_weight": "600", "input_border_width": "1px", "checkbox_label_padding": "6px 10px",
        "checkbox_label_border_width": "1px", "checkbox_label_text_size": "14px",
    }  # fmt: skip
    inks = {
        "body_background_fill": ("#ffffff", "#0f172a"),
        "body_text_color": ("#1b1b2f", "#e8ebf1"),
        "body_text_color_subdued": ("#565d6b", "#a4acb9"),
        "block_background_fill": ("#ffffff", "#0f172a"),
        "block_title_text_color": ("#1b1b2f", "#e8ebf1"),
        "block_label_text_color": ("#1b1b2f", "#e8ebf1"),
        "block_info_text_color": ("#565d6b", "#a4acb9"),
        "input_background_fill": ("#ffffff", "#17213a"),
        "input_border_color": ("#c9cfd8", "#3a4964"),
        "checkbox_label_background_fill": ("#ffffff", "#0f172a"),
        "checkbox_label_background_fill_hover": ("#f4f6f9", "#17213a"),
        "checkbox_label_background_fill_selected": ("#f4f6f9", "#17213a"),
        "checkbox_label_border_color": ("#dfe3e9", "#2b3850"),
        "checkbox_label_border_color_selected": ("#0064a0", "#56b4e9"),
        "checkbox_background_color_selected": ("#0064a0", "#56b4e9"),
        "checkbox_border_color_selected": ("#0064a0", "#56b4e9"),
        "slider_color": ("#0064a0", "#56b4e9"),
        "button_primary_background_fill": ("#1b1b2f", "#e8ebf1"),
        "button_primary_background_fill_hover": ("#33334d", "#ffffff"),
        "button_primary_text_color": ("#ffffff", "#0f172a"),
        "button_secondary_background_fill": ("#f4f6f9", "#17213a"),
        "button_secondary_background_fill_hover": ("#e6eaf0", "#22304d"),
        "button_secondary_text_color": ("#1b1b2f", "#e8ebf1"),
    }
    theme = gr.themes.Base(primary_hue="slate", neutral_hue="slate", **fonts)
    day = {name: pair[0] for name, pair in inks.items()}
    night = {f"{name}_dark": pair[1] for name, pair in inks.items()}
    return theme.set(**both, **day, **night)


# ---- layout ----------------------------------------------------------------------------------------------------------


def _layout():
    """(settings by name, everything else by name)."""
    say, settings, parts = words("en"), {}, {}
    with gr.Row(elem_id="top"):
        parts["title"] = gr.Markdown(say["title"], elem_id="title")
        tongues = [(name, code) for code, name in NAMES.items()]
        settings["language"] = Radio(tongues, value="en", elem_id="language", label=say["language"], min_width=0)
    parts["status"] = gr.HTML(
        value="", html_template=STATUS, js_on_load="specscope.status(element, props, watch);", elem_id="status"
    )
    with gr.Row(elem_id="desk"):
        with gr.Column(scale=3, min_width=300, elem_id="show"):
            first = sources.first()
            parts["tape"] = Tape(first, elem_id="tape")
        with gr.Column(scale=1, min_width=280, elem_id="try"):
            _settings(say, settings, parts, sources.settings_of(first))
    for name, component in settings.items():
        component.elem_id = name  # by which a link can hide it
    return settings, parts


def _settings(say, settings, parts, given):
    parts["try"] = gr.Markdown(say["try"])
    settings["prompt"] = gr.Textbox(
        value=given["prompt"] or EXAMPLES["table"], lines=4, max_lines=8, label=say["prompt"], info=say["prompt_hint"]
    )
    with gr.Row(elem_id="examples"):
        for name in ("mine", *EXAMPLES):
            parts[f"example_{name}"] = gr.Button(say[f"example_{name}"], size="sm", min_width=0)
    settings["method"] = Radio(
        _choices(say, "method", sources.METHODS),
        value=given["method"],
        elem_classes="told",
        elem_id="method",
        label=say["method"],
    )
    settings["k"] = Slider(1, 16, given["k"], step=1, label=say["k"], elem_classes=_heard("k"))
    for name in sources.SWITCHES:
        settings[name] = Checkbox(given[name], label=say[name], info=say[f"{name}_info"], elem_classes=_heard(name))
    settings["threshold"] = Slider(
        0,
        1,
        given["threshold"],
        step=0.05,
        label=say["threshold"],
        info=say["threshold_info"],
        elem_classes=_heard("threshold"),
    )
    with gr.Row(elem_id="go"):
        parts["run"] = gr.Button(say["run"], variant="primary", elem_id="run", min_width=0)
        parts["pause"] = gr.Button(say["pause_engine"], elem_id="pause", min_width=0)
        parts["stop"] = gr.Button(say["stop"], elem_id="stop", min_width=0)
    settings["temperature"] = Slider(
        0, 2, given["temperature"], step=0.05, label=say["temperature"], info=say["temperature_info"]
    )
    settings["top_p"] = Slider(0.01, 1, given["top_p"], step=0.01, label=say["top_p"], info=say["top_p_info"])
    settings["max_new"] = Slider(1, 512, given["max_new"], step=1, label=say["max_new"])
    settings["seed"] = Number(given["seed"], precision=None, label=say["seed_label"], info=say["seed_info"])
    with gr.Accordion(say["advanced"], open=False, elem_id="advanced") as parts["advanced"]:
        settings["rule"] = Radio(
            _choices(say, "rule", sources.RULES), value=given["rule"], elem_classes="told", label=say["rule"]
        )
        settings["top_k"] = Number(given["top_k"], label=say["top_k"], info=say["top_k_info"])
        settings["min_p"] = Slider(0, 1, given["min_p"], step=0.01, label=say["min_p"], info=say["min_p_info"])


def _heard(knob: str) -> list[str]:
    """Classes by which the page shows a setting only beside methods that listen to it."""
    return ["heard", *(f"by-{method}" for method, knobs in sources.KNOBS.items() if knob in knobs)]


def _choices(say, name, values):
    return [(say[f"{name}_{value}"], value) for value in values]


def _labels(say) -> dict[str, dict]:
    """What each native component says in one language: {name: update}."""
    labels = {
        "title": {"value": say["title"]},
        "try": {"value": say["try"]},
        "advanced": {"label": say["advanced"]},
        "language": {"label": say["language"]},
        "prompt": {"label": say["prompt"], "info": say["prompt_hint"]},
        "method": {"label": say["method"], "choices": _choices(say, "method", sources.METHODS)},
        "rule": {"label": say["rule"], "choices": _choices(say, "rule", sources.RULES)},
        "k": {"label": say["k"]},
        "max_new": {"label": say["max_new"]},
        "seed": {"label": say["seed_label"], "info": say["seed_info"]},
    }
    labels |= {
        name: {"label": say[name], "info": say[f"{name}_info"]}
        for name in ("temperature", "top_p", "top_k", "min_p", "sampled", "markov", "confidence", "threshold")
    }
    labels["pause"] = {"value": say["pause_engine"]}
    labels |= {
        name: {"value": say[name]} for name in ("run", "stop", *(f"example_{name}" for name in ("mine", *EXAMPLES)))
    }
    return labels


def _head() -> str:
    """Styles, words, labels and the page's own script. (css_paths= would rewrite the rules, and lose some of them.)"""
    begun = {
        "words": WORDS,
        "experiment": sources.experiment(),
        "labels": {code: list(_labels(say).values()) for code, say in WORDS.items()},
        "examples": list(EXAMPLES.values()),
        "recordings": sources.recorded_among(EXAMPLES),
        "settings": SETTINGS,
        "bounds": {
            "limits": sources.LIMITS, "choices": sources.CHOICES,
            "switches": sources.SWITCHES, "prompt": sources.PROMPT, "blocks": sources.BLOCKS, "block": sources.BLOCK,
        },
    }  # fmt: skip
    style = "".join(_read(f"{name}.css") for name in STYLES)
    return (
        f'<style>{_read("page.css")}</style>\n<style id="viewer-style">{style}</style>\n'
        f'<script id="viewer-script">{viewer()}</script>\n'
        f"<script>window.specscope = {sources.dumps(begun)};\n{_read('page.js')}\n{_read('link.js')}</script>"
    )


def _read(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


# ---- wiring ----------------------------------------------------------------------------------------------------------


def _wire(page, settings, parts):
    tape, status, prompt, language = parts["tape"], parts["status"], settings["prompt"], settings["language"]
    inputs = [settings[name] for name in SETTINGS]
    named = {**parts, **settings}
    labelled = [named[name] for name in _labels(words("en"))]

    page.load(None, None, labelled, js="() => specscope.relabel()")
    settle = {"fn": None, "inputs": inputs, "js": "(...values) => specscope.settle(values)"}
    page.load(None, inputs, inputs, js="(...values) => specscope.restore(values)").then(**settle)
    gr.on([component.change for component in inputs], **settle)
    page.load(watch, None, status, show_progress="hidden", concurrency_limit=None, api_name="status")
    language.change(None, language, labelled, js="wish => specscope.relabel(wish)")

    parts["example_mine"].click(None, prompt, prompt, js="text => specscope.mine() || text")
    for index, name in enumerate(EXAMPLES):
        parts[f"example_{name}"].click(None, None, prompt, js=f"() => specscope.examples[{index}]")

    started = parts["run"].click(
        run, inputs, [tape, status], validator=check, show_progress="hidden", trigger_mode="once",
        concurrency_limit=8, concurrency_id="engine", api_name="run",
    )  # fmt: skip
    started.then(None, None, None, js="() => specscope.ended()")
    parts["pause"].click(
        pause, status, None, js="() => specscope.pause()", queue=False, show_progress="hidden", api_name="pause"
    )
    gr.api(sources.lanes, api_name="lanes", concurrency_limit=4)
    gr.api(sources.recording, api_name="recorded", concurrency_limit=4)
    gr.api(guesses, api_name="guesses", concurrency_limit=4, concurrency_id="guesses")
    gr.api(draws, api_name="draws", concurrency_limit=2, concurrency_id="draws")
    parts["stop"].click(None, None, status, cancels=[started], js="""() => '{"state":"stopped"}'""")


def watch():
    """What the engine is doing, until it is ready: JSON {"state": ...}."""
    for state in sources.states():
        yield sources.dumps(state)


def pause(wish):
    """Pause a run at the end of its round, or let it go on: JSON {"turn": as the states of the run give it, "on": bool}."""
    try:
        wish = json.loads(wish)
        sources.pause(str(wish["turn"]), wish["on"] is True)
    except (TypeError, ValueError, KeyError) as error:
        raise gr.Error('pause takes JSON: {"turn": text, "on": true or false}', print_exception=False) from error


def check(*values):
    """One verdict per setting, in the visitor's language, before anything starts."""
    settings = dict(zip(SETTINGS, values, strict=True))
    found, say = sources.problems(settings), words(settings["language"])
    texts = {name: _sentence(say, *problem) for name, problem in found.items()}
    return [gr.validate(name not in texts, texts.get(name, "")) for name in SETTINGS]


def run(*values):
    """Decode a prompt. Streams [tape message, state], both JSON strings; the last message holds the whole run."""
    settings = dict(zip(SETTINGS, values, strict=True))
    say = words(settings.pop("language"))
    try:
        for message, state in sources.live(settings):
            yield gr.skip() if message is None else message, sources.dumps(state)
    except (ValueError, RuntimeError) as error:
        reason = _reason(say, error)
        broken = "refused" if isinstance(error, ValueError) else "broken"
        yield gr.skip(), sources.dumps({"state": broken, "reason": reason})
        raise gr.Error(reason, print_exception=False) from error


def draws(p: list, q: list, rule: str, n: int, seed: int, language: str = "en") -> dict:
    """Draw n guesses from a small law q and judge each by the engine's own check against p, under one rule.

    rule: exact, match, spike (lossless); tolerance, typical (lossy); resample, argmax, greedy (wrong, for the lesson).
    """
    try:
        return sources.draws(p, q, rule, n, seed)
    except ValueError as error:
        raise gr.Error(_reason(words(str(language)), error), print_exception=False) from error


def guesses(ids: list, prompt: int, methods: list, settings: dict, target: str, language: str = "en") -> list:
    """Let every method make one round behind the same tokens (ids; the first `prompt` of them are the prompt).

    settings: as of a run, each may be left out. target: the hash of the model to which the ids belong. Gives for each
    method the round as a record of a trace and a hash of the tokens it began with, or why the method is off.
    """
    try:
        return sources.guesses(ids, prompt, methods, settings, target)
    except ValueError as error:
        raise gr.Error(_reason(words(str(language)), error), print_exception=False) from error


def _reason(say, error: Exception) -> str:
    """An error in the visitor's language where it carries a sentence's key and facts, else its own words."""
    return _sentence(say, *error.args[0]) if isinstance(error.args[0], tuple) else str(error)


def _sentence(say, key: str, facts: dict) -> str:
    return say[key].format(**facts)
