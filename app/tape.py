"""The viewer of a run as a Gradio component: a still template, filled by scripts from the messages that arrive as its value."""

from pathlib import Path

import gradio as gr

ASSETS = Path(__file__).parents[1] / "assets"
# the viewer's scripts, in the order in which they build on each other
VIEWER = (
    "base", "run", "player", "tape", "log", "card", "ways", "fair", "chart", "count", "fade", "sure", "lanes", "path",
    "picture", "files", "keep", "viewer",
)  # fmt: skip


def scripts() -> str:
    """The viewer's scripts, one behind the other."""
    return "\n".join((ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in VIEWER)


def viewer() -> str:
    """The viewer's scripts as one: it defines mountViewer(element, source) and knows nothing of Gradio. It stands in the head,
    from where a file that plays offline takes it along."""
    return f"(() => {{\n{scripts()}\nwindow.mountViewer = mountViewer;\n}})();"


class Tape(gr.HTML):
    """Its value is a JSON string: {"run": header, "rounds": [...], "end": record or null, "final": bool}; the last message also
    holds the prompt's token ids, "ids"."""

    def __init__(self, value: str = "", **others):
        super().__init__(
            value=value,
            html_template='<div class="tape"></div>',
            js_on_load="mountViewer(element.querySelector('.tape'), specscope.source(props, watch));",
            apply_default_css=False,
            **others,
        )

    def api_info(self):
        return {"type": "string", "description": "JSON: {run, rounds, end, final, ids}, the records of engine/trace.py"}
