"""The tape as a Gradio component: a still template, filled by assets/tape.js from the messages that arrive as its value."""

from pathlib import Path

import gradio as gr

ASSETS = Path(__file__).parents[1] / "assets"


class Tape(gr.HTML):
    """Its value is a JSON string: {"run": header, "rounds": [...], "end": record or null, "final": bool}."""

    def __init__(self, value: str = "", **settings):
        script = "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in ("curves.js", "tape.js"))
        super().__init__(
            value=value,
            html_template='<div class="tape"></div>',
            js_on_load=f"{script}\nmountTape(element.querySelector('.tape'), specscope.source(props, watch));",
            apply_default_css=False,
            **settings,
        )

    def api_info(self):
        return {"type": "string", "description": "JSON: {run, rounds, end, final}, the records of engine/trace.py"}
