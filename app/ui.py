"""The page: layout, then wiring. build() has no side effect and needs neither weights nor torch.

Native components are created in English; their words in every language travel to the page once, in its head, and a change of
language is made there without asking the server.
"""

import json
from pathlib import Path

import gradio as gr
from starlette.middleware import Middleware

from app import sources
from app.guard import Guard
from app.tape import ASSETS, Tape
from app.words import NAMES, WORDS, words

EXAMPLES = json.loads((ASSETS / "prompts.json").read_text(encoding="utf-8"))
SETTINGS = ("prompt", "method", "k", "temperature", "top_p", "seed", "max_new", "rule", "top_k", "min_p", "language")
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


def build() -> gr.Blocks:
    with gr.Blocks(title="SpecScope") as page:
        parts = _layout()
        _wire(page, *parts)
    return page


def launch() -> dict:
    """Everything that launch() needs beside a port."""
    fonts = {"font": ["system-ui", "sans-serif"], "font_mono": ["ui-monospace", "monospace"]}
    return {
        "theme": gr.themes.Base(primary_hue="slate", neutral_hue="slate", **fonts),
        "css_paths": [ASSETS / "page.css", ASSETS / "tape.css"],
        "head": _head(),
        "footer_links": ["api"],
        "ssr_mode": False,
        "run_history": False,
        "show_error": False,
        "app_kwargs": {"middleware": [Middleware(Guard)]},
    }


# ---- layout ----------------------------------------------------------------------------------------------------------


def _layout():
    """(settings by name, everything else by name)."""
    say, settings, parts = words("en"), {}, {}
    with gr.Row(elem_id="top"):
        parts["title"] = gr.Markdown(say["title"], elem_id="title")
        settings["language"] = Radio([(name, code) for code, name in NAMES.items()], value="en", elem_id="language",
                                     label=say["language"])  # fmt: skip
    parts["status"] = gr.HTML(
        value="", html_template=STATUS, js_on_load="specscope.status(element, props, watch);", elem_id="status"
    )
    with gr.Row(elem_id="desk"):
        with gr.Column(scale=3, min_width=300, elem_id="show"):
            parts["tape"] = Tape(sources.first(), elem_id="tape")
        with gr.Column(scale=1, min_width=280, elem_id="try"):
            _settings(say, settings, parts)
    return settings, parts


def _settings(say, settings, parts):
    parts["try"] = gr.Markdown(say["try"])
    settings["prompt"] = gr.Textbox(value=EXAMPLES["table"], lines=4, max_lines=8, elem_id="prompt", label=say["prompt"],
                                    info=say["prompt_hint"])  # fmt: skip
    with gr.Row(elem_id="examples"):
        for name in ("mine", *EXAMPLES):
            parts[f"example_{name}"] = gr.Button(say[f"example_{name}"], size="sm", min_width=0)
    settings["method"] = Radio(_choices(say, "method", sources.METHODS), value="ngram", elem_classes="told", label=say["method"])
    settings["k"] = Slider(1, 16, 4, step=1, label=say["k"])
    with gr.Row(elem_id="go"):
        parts["run"] = gr.Button(say["run"], variant="primary", elem_id="run", min_width=0)
        parts["stop"] = gr.Button(say["stop"], elem_id="stop", min_width=0)
    settings["temperature"] = Slider(0, 2, 0, step=0.05, label=say["temperature"], info=say["temperature_info"])
    settings["top_p"] = Slider(0.01, 1, 1, step=0.01, label=say["top_p"], info=say["top_p_info"])
    settings["max_new"] = Slider(1, 512, 96, step=1, label=say["max_new"])
    settings["seed"] = Number(0, precision=None, label=say["seed_label"], info=say["seed_info"])
    with gr.Accordion(say["advanced"], open=False) as parts["advanced"]:
        settings["rule"] = Radio(_choices(say, "rule", sources.RULES), value="exact", elem_classes="told", label=say["rule"])
        settings["top_k"] = Number(0, label=say["top_k"], info=say["top_k_info"])
        settings["min_p"] = Slider(0, 1, 0, step=0.01, label=say["min_p"], info=say["min_p_info"])


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
    labels |= {name: {"label": say[name], "info": say[f"{name}_info"]} for name in ("temperature", "top_p", "top_k", "min_p")}
    labels |= {name: {"value": say[name]} for name in ("run", "stop", *(f"example_{name}" for name in ("mine", *EXAMPLES)))}
    return labels


def _head() -> str:
    """Words, labels and the page's own script."""
    begun = {
        "words": WORDS,
        "labels": {code: list(_labels(say).values()) for code, say in WORDS.items()},
        "examples": list(EXAMPLES.values()),
    }
    script = (ASSETS / "page.js").read_text(encoding="utf-8")
    return f"<script>window.specscope = {sources.dumps(begun)};\n{script}</script>"


# ---- wiring ----------------------------------------------------------------------------------------------------------


def _wire(page, settings, parts):
    tape, status, prompt, language = parts["tape"], parts["status"], settings["prompt"], settings["language"]
    inputs = [settings[name] for name in SETTINGS]
    named = {**parts, **settings}
    labelled = [named[name] for name in _labels(words("en"))]

    page.load(None, None, labelled, js="() => specscope.relabel()")
    page.load(None, None, [language, prompt], js="() => [specscope.language(), specscope.mine() || specscope.examples[2]]")
    page.load(watch, None, status, show_progress="hidden", concurrency_limit=None, api_name="status")
    language.change(None, language, labelled, js="wish => specscope.relabel(wish)")

    prompt.change(None, prompt, None, js="text => { specscope.typed(text); return []; }")
    parts["example_mine"].click(None, None, prompt, js="() => specscope.mine()")
    for index, name in enumerate(EXAMPLES):
        parts[f"example_{name}"].click(None, None, prompt, js=f"() => specscope.examples[{index}]")

    started = parts["run"].click(
        run, inputs, [tape, status], validator=check, show_progress="hidden", trigger_mode="once",
        concurrency_limit=8, concurrency_id="engine", api_name="run",
    )  # fmt: skip
    parts["stop"].click(None, None, status, cancels=[started], js="""() => '{"state":"stopped"}'""")


def watch():
    """What the engine is doing, until it is ready: JSON {"state": ...}."""
    for state in sources.states():
        yield sources.dumps(state)


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
        reason = _sentence(say, *error.args[0]) if isinstance(error.args[0], tuple) else str(error)
        broken = "refused" if isinstance(error, ValueError) else "broken"
        yield gr.skip(), sources.dumps({"state": broken, "reason": reason})
        raise gr.Error(reason, print_exception=False) from error


def _sentence(say, key: str, facts: dict) -> str:
    return say[key].format(**facts)
