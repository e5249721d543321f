"""Recorded outputs of the methods' reference implementations on tiny models: where they lie and how to load them."""

import json
import os
from pathlib import Path

import pytest
from safetensors.torch import load_file
from toys import DEVICE
from transformers import Qwen3Config, Qwen3ForCausalLM

SHARED = Path(os.environ.get("SPECSCOPE_SHARED", Path(__file__).parents[2] / "shared"))


def folder(name):
    """The fixtures of a method; the calling test is skipped where they are absent."""
    found = SHARED / "fixtures" / name
    if not found.is_dir():
        pytest.skip(f"the recorded fixtures are not here ({found})")
    return found


def read(name, file="golden.json"):
    return json.loads((folder(name) / file).read_text())


def target(name, config):
    """A fixture's target in float32."""
    model = Qwen3ForCausalLM(Qwen3Config(**config))
    model.load_state_dict(load_file(folder(name) / "target.safetensors"))
    return model.to(DEVICE).requires_grad_(False)
