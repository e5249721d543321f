"""SpecScope's engine: speculative decoding as one loop over real models.

    from engine import LM, Engine, Sampling, load_model, build_drafter

The names below are imported on first use, so that `import engine` costs nothing and needs no torch. Two functions carry the
name of their module and are imported from there: engine.verify.verify and engine.run.run.
"""

import os
from importlib import import_module

# Torch's CPU threads spin while they wait for each other. With a browser and a web server on the same few cores a spinning
# thread keeps its partner off the core: single operations then take 40 times as long. Sleeping costs a few percent.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

_HOME = {
    "Sampling": "types", "Sequence": "types", "Proposal": "types", "Trial": "types", "Verdict": "types", "Step": "types",
    "warp": "sampling", "draw": "sampling", "uniforms": "sampling",
    "residual": "verify", "RULES": "verify",
    "SlabCache": "cache", "LM": "model", "Engine": "engine",
    "load_model": "load", "TARGETS": "load", "METHODS": "methods", "build_drafter": "methods",
    "describe": "trace", "read": "trace", "write": "trace",
}  # fmt: skip
__all__ = list(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    return getattr(import_module(f"engine.{_HOME[name]}"), name)
