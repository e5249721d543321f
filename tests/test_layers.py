"""Who may import whom: the engine runs without gradio, its values without torch."""

import subprocess
import sys

BLOCK = "import sys\nfor name in {blocked!r}: sys.modules[name] = None\n"


def imports(code, blocked):
    done = subprocess.run([sys.executable, "-c", BLOCK.format(blocked=blocked) + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_engine_imports_without_gradio_and_plotly():
    imports("import engine.run, engine.generate, engine.bench, engine.training.adapter", ["gradio", "plotly"])


def test_values_metrics_and_traces_import_without_torch():
    imports("import engine, engine.types, engine.metrics, engine.trace", ["torch", "transformers", "gradio"])


def test_the_engines_core_imports_without_transformers():
    imports("import engine.verify, engine.sampling, engine.cache, engine.drafters.ngram", ["transformers", "gradio"])


def test_every_public_name_is_there():
    imports("import engine\nfor name in engine.__all__: assert getattr(engine, name), name", [])
