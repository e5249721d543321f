"""Models by name, folder or hub id. A model is judged by its config alone before any weight is read.

`load_model()` gives the default target, `load_model("/a/folder")` any causal language model in Hugging Face layout,
`load_model("owner/model")` one from the hub (or from the hub's cache, without a network call, when it is there).
"""

import hashlib
import json
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from huggingface_hub import constants, snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from .machine import check_room, choose_device, choose_dtype
from .vocabulary import Vocabulary
from .weights import LoadError, Source, growth, last_lines, run, sha256, smollm2

DEFAULT = "smollm2-135m"
TARGETS = {DEFAULT: smollm2}
MODEL_FILES = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]
OTHERS = ["*/*", "consolidated*"]  # the same weights in other formats
ROLLS_BACK = ("full_attention", "sliding_attention")


@dataclass(frozen=True)
class Loaded:
    """A model with its tokenizer, and the facts about its weights that a trace names."""

    model: torch.nn.Module
    tokenizer: object
    vocabulary: Vocabulary
    name: str
    weights: str
    hash: str
    dtype: str
    device: str


def load_model(name_or_path=None, *, dtype="auto", device="auto", progress=lambda state: None) -> Loaded:
    """Load a causal language model, frozen and ready to run.

    `progress` hears {"phase": "check" | "wait" | "download" | "convert" | "repair" | "load", ...}: a download adds
    "done" and "total" bytes (total None if unknown), a repair adds "why". What it raises cancels and leaves nothing
    half-done. Raises LoadError when the model cannot be had or cannot be rolled back.
    """
    given = str(name_or_path or DEFAULT)
    device = choose_device(device)
    folder = Path(given).expanduser()
    if given in TARGETS:
        name, source = given, TARGETS[given](progress)
    elif folder.is_dir():
        name, source = folder.resolve().name, from_folder(folder, progress)
    elif re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", given):
        name, source = given, from_hub(given, progress)
    else:
        raise LoadError(f"There is no folder {given!r}. Possible: a folder, a hub id, or {', '.join(TARGETS)}.")
    progress({"phase": "load"})
    disable_progress_bar()  # `progress` tells more, and to whoever asked
    config = read_config(source.folder)
    number = choose_dtype(dtype, device, config.get_text_config(decoder=True).hidden_size)
    check_room(source.folder, config.dtype or torch.float32, number, device)
    try:
        tokenizer = AutoTokenizer.from_pretrained(source.folder, local_files_only=True)
        vocabulary = Vocabulary(tokenizer)
        model, found = AutoModelForCausalLM.from_pretrained(
            source.folder,
            config=config,
            dtype=number,
            device_map=str(device),
            local_files_only=True,
            output_loading_info=True,
        )
    except (OSError, ValueError, ImportError) as error:
        raise LoadError(f"{given} cannot be read: {error}") from error
    if found["missing_keys"]:  # transformers would leave them random
        raise LoadError(f"The weights of {given} are not whole; missing: {_few(sorted(found['missing_keys']))}.")
    rows = model.get_input_embeddings().weight.shape[0]
    if vocabulary.size > rows:
        raise LoadError(f"{given}: its tokenizer has {vocabulary.size} tokens, its model only rows for {rows}.")
    model.requires_grad_(False)
    words = str(number).removeprefix("torch.")
    return Loaded(model, tokenizer, vocabulary, name, source.weights, source.sha256[:16], words, str(device))


def from_folder(folder: Path, progress) -> Source:
    """A folder in Hugging Face layout; refused by its config before its weights are read."""
    refuse(read_config(folder))
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise LoadError(f"{folder} has no *.safetensors file. Possible: a folder written by save_pretrained().")
    progress({"phase": "check"})
    digests = [sha256(file) for file in files]
    whole = digests[0] if len(files) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    try:
        with safe_open(files[0], "pt") as tensors:
            kinds = sorted({tensors.get_slice(key).get_dtype() for key in tensors.keys()})
    except SafetensorError as error:
        raise LoadError(f"{files[0]} is damaged ({error}). Fetch or save it again.") from error
    return Source(folder, f"{'/'.join(kinds)} weights", whole)


def from_hub(repository: str, progress) -> Source:
    """A model from the hub's own cache, else from the hub: its config first, its weights only if it can be used.

    A cancelled download leaves the unfinished files that the hub's cache keeps in order to resume; they never count.
    """
    folder = _cached(repository, MODEL_FILES)
    if not _complete(folder):
        refuse(read_config(_fetch(repository, ["config.json"], _configured, progress)))
        folder = _fetch(repository, MODEL_FILES, _complete, progress)
    return from_folder(folder, progress)


def _cached(repository: str, patterns: list[str]) -> Path | None:
    """The folder of a repository in the hub's cache if it is known to have the matching files, else None."""
    try:
        folder = snapshot_download(repository, allow_patterns=patterns, ignore_patterns=OTHERS, local_files_only=True)
        return Path(folder)
    except LocalEntryNotFoundError:
        return None


def _configured(folder: Path | None) -> bool:
    """Whether a snapshot has a config."""
    return folder is not None and (folder / "config.json").is_file()


def _complete(folder: Path | None) -> bool:
    """Whether a snapshot has a config and all of its weights."""
    if not _configured(folder):
        return False
    index = folder / "model.safetensors.index.json"
    names = set(json.loads(index.read_text())["weight_map"].values()) if index.is_file() else ["model.safetensors"]
    return all((folder / name).is_file() for name in names)


def _fetch(repository: str, patterns: list[str], ready, progress) -> Path:
    """Bring the matching files of a repository into the hub's cache, in a process that can be killed."""
    blobs = Path(constants.HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}" / "blobs"
    code = (
        "import sys; from huggingface_hub import snapshot_download; "
        f"snapshot_download(sys.argv[1], allow_patterns=sys.argv[2:], ignore_patterns={OTHERS})"
    )
    with tempfile.TemporaryDirectory() as work:
        log = Path(work) / "hub.log"
        failed = run(
            [sys.executable, "-c", code, repository, *patterns],
            log,
            lambda: progress({"phase": "download", "done": growth(blobs, ""), "total": None}),
            HF_HUB_DISABLE_PROGRESS_BARS="1",
        )
        words = last_lines(log)
    folder = _cached(repository, patterns)
    if failed or not ready(folder):  # without a network the hub's client is content with a part
        raise LoadError(
            f"The model {repository!r} is not on this machine and could not be taken from the Hugging Face hub. It said: "
            f"{words}. Check the name, the network and (for a gated model) `hf auth login`. Possible without a network: "
            f"a folder (--target PATH) or {', '.join(TARGETS)}."
        )
    return folder


def read_config(folder: Path):
    """The config of a folder in Hugging Face layout."""
    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise LoadError(f"{folder} has no config that transformers can read: {error}") from error


def refuse(config) -> None:
    """Raise LoadError for a model that cannot forget rejected tokens or whose attention cannot be replaced."""
    text = config.get_text_config(decoder=True)
    kinds = getattr(text, "layer_types", None) or []
    odd = {kind: [i for i, k in enumerate(kinds) if k == kind] for kind in kinds if kind not in ROLLS_BACK}
    model = AutoModelForCausalLM._model_mapping.get(type(config), None)
    if config.is_encoder_decoder:
        why = "it is an encoder-decoder model; a drafter here continues one text"
    elif model is None:
        why = "transformers knows no causal language model of this type"
    elif odd:
        layers = "; ".join(f"{'layers' if len(at) > 1 else 'layer'} {_few(at)}: {kind}" for kind, at in odd.items())
        why = f"its state cannot be rolled back to an earlier token after a rejection ({layers})"
    elif model._is_stateful:
        why = f"{model.__name__} keeps a running state in every layer that cannot be rolled back after a rejection"
    elif not model._supports_attention_backend:
        why = f"the attention of {model.__name__} cannot be replaced, so it cannot check several drafted tokens at once"
    else:
        return
    raise LoadError(
        f"The model type {config.model_type!r} cannot be used: {why}. Possible: causal language models whose layers "
        f"are all {' or '.join(ROLLS_BACK)}, such as Llama, Qwen3 or Gemma 3."
    )


def _few(things: list) -> str:
    """The first four of a list, in words."""
    return ", ".join(map(str, things[:4])) + (f" and {len(things) - 4} more" if len(things) > 4 else "")
