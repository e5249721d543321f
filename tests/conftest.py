"""What every test shares: a quiet environment and the default target, loaded once."""

import os

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import pytest


@pytest.fixture(scope="session")
def target():
    """The default target in float32."""
    from engine.load import load_model
    from engine.methods import Target

    return Target(load_model(dtype="float32"))
