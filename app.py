"""Starts SpecScope: the page at once, the engine behind it."""

import os

os.environ.setdefault(
    "GRADIO_ANALYTICS_ENABLED", "False"
)  # before Gradio is imported: then it asks the network nothing
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
ZERO_GPU = bool(os.environ.get("SPACES_ZERO_GPU"))
if ZERO_GPU:
    import spaces  # noqa: F401  before torch

from app import sources, ui  # noqa: E402

if __name__ == "__main__":
    if ZERO_GPU:
        sources.load()
    else:
        sources.warm(after=8)  # sooner if somebody looks at the page
    ui.build().queue(max_size=16).launch(**ui.launch())
