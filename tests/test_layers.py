"""Who may import whom: the engine runs without gradio, its values without torch."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

BLOCK = "import sys\nfor name in {blocked!r}: sys.modules[name] = None\n"


def imports(code, blocked):
    done = subprocess.run([sys.executable, "-c", BLOCK.format(blocked=blocked) + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_engine_imports_without_gradio_and_plotly():
    imports("import engine.run, engine.generate, engine.bench, engine.training.train", ["gradio", "plotly"])


def test_values_metrics_and_traces_import_without_torch():
    imports("import engine, engine.types, engine.metrics, engine.trace", ["torch", "transformers", "gradio"])


def test_the_engines_core_imports_without_transformers():
    imports("import engine.verify, engine.sampling, engine.cache, engine.drafters.ngram", ["transformers", "gradio"])


def test_every_public_name_is_there():
    imports("import engine\nfor name in engine.__all__: assert getattr(engine, name), name", [])


def test_every_known_bug_that_concerns_the_engine_is_covered():
    from known_bugs import missing

    assert missing() == []


def test_the_loop_in_the_readme_runs_and_is_lossless(monkeypatch):
    from toys import PROMPT, run, tiny

    import engine.load

    code = re.search(r"```python\n(.*?)```", Path(__file__).parents[1].joinpath("README.md").read_text(), re.S)[1]
    assert sum(bool(line.strip()) for line in code[code.index("row, text") :].splitlines()) <= 15

    class Toy:
        model = tiny().cpu()  # the block is written for a CPU
        tokenizer = staticmethod(lambda _text: SimpleNamespace(input_ids=list(PROMPT)))
        vocabulary = SimpleNamespace(text=list)

    monkeypatch.setattr(engine.load, "load_model", Toy)
    scope = {}
    exec(code.replace("temperature=0.7", "temperature=0.0"), scope)
    expected, _, _ = run("plain", max_new=40)
    assert scope["text"].output[:40] == expected
