"""Weights of block drafters on disk: published checkpoints in and out, and the small files that travel with this program.

One pure function per published format turns its config into an empty net of ours, whose parameters carry the published
names. Whatever in a config would change what the net computes and is not understood here is refused by name: a drafter read
wrongly raises no error, it only guesses badly.

A stored file keeps matrices as 8-bit rows with a scale each, and the hash of the target it was trained for.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from engine.drafters.block import Backbone, BlockConfig, spread
from engine.drafters.dflash import DFlash
from engine.drafters.dspark import DSpark, DSparkConfig
from engine.drafters.lesson import Words
from engine.drafters.lm import Pruned, PrunedConfig
from engine.load import Loaded, from_hub
from engine.weights import LoadError, cache_folder, sha256

STORED = Path(__file__).parents[1] / "assets" / "drafters"
SHARED = {"embed_tokens.weight": "get_input_embeddings", "lm_head.weight": "get_output_embeddings"}
NOT_READ = (
    "input_embedding_scale",
    "output_multiplier",
    "final_logit_softcapping",
    "rope_scaling",
    "is_causal",
    "causal",
)
NETS = {"lm": (Pruned, PrunedConfig), "dflash": (DFlash, BlockConfig), "dspark": (DSpark, DSparkConfig)}


# ---- published formats


def zlab(raw: dict) -> DFlash:
    """DFlash as its authors publish it: the anchor's slot guesses nothing; settings at the top or in `dflash_config`."""
    given = raw | raw.get("dflash_config", {})
    if given.get("sample_from_anchor"):
        raise LoadError(
            "config.json has sample_from_anchor, which DFlashDraftModel does not know: the layout is unclear"
        )
    return DFlash(BlockConfig(**_backbone(given), anchor_guesses=False))


def deepspec(raw: dict) -> DFlash | DSpark:
    """DSpark as DeepSpec publishes it, and its DFlash, which is the same without heads: every slot guesses a token."""
    backbone = _backbone(raw) | {"anchor_guesses": True}
    if not raw.get("markov_rank") and not raw.get("enable_confidence_head"):
        return DFlash(BlockConfig(**backbone))
    return DSpark(
        DSparkConfig(
            **backbone,
            markov_rank=raw.get("markov_rank", 0),
            markov_kind=raw.get("markov_head_type", "vanilla"),
            confidence=raw.get("enable_confidence_head", False),
            confidence_reads_token=raw.get("confidence_head_with_markov", False),
        )
    )


FORMATS = {"DFlashDraftModel": zlab, "Qwen3DSparkModel": deepspec}


def _backbone(raw: dict) -> dict:
    """The fields of BlockConfig that both formats spell alike."""
    odd = {name: raw[name] for name in NOT_READ if raw.get(name)}
    rope = raw.get("rope_parameters") or {}
    if rope.get("rope_type", "default") != "default":
        odd["rope_type"] = rope["rope_type"]
    kinds = raw.get("layer_types") or ["sliding_attention" if raw.get("sliding_window") else "full_attention"]
    odd |= {"layer_types": kinds} if set(kinds) != {"full_attention"} else {}
    odd |= {"hidden_act": raw["hidden_act"]} if raw.get("hidden_act", "silu") != "silu" else {}
    if odd:
        raise LoadError(f"the drafter needs {', '.join(f'{k} {v!r}' for k, v in odd.items())}, which is not done here")
    names = {
        "hidden": "hidden_size", "intermediate": "intermediate_size", "layers": "num_hidden_layers",
        "heads": "num_attention_heads", "key_heads": "num_key_value_heads", "head_dim": "head_dim",
        "vocabulary": "vocab_size", "target_layers": "num_target_layers", "taps": "target_layer_ids",
        "block": "block_size", "mask": "mask_token_id", "eps": "rms_norm_eps", "context": "max_position_embeddings",
    }  # fmt: skip
    theta = raw.get("rope_theta") or rope.get("rope_theta")
    absent = [name for name in names.values() if raw.get(name) is None] + ([] if theta else ["rope_theta"])
    if absent:
        hint = ""
        if "target_layer_ids" in absent and raw.get("num_target_layers"):
            hint = f" (the usual five layers would be {list(spread(raw['num_target_layers'], 5))}; a wrong guess is silent)"
        raise LoadError(f"config.json does not say {', '.join(absent)}{hint}")
    found = {ours: raw[theirs] for ours, theirs in names.items()}
    return found | {"taps": tuple(found["taps"]), "theta": float(theta)}


def load(source: str | Path, target: Loaded, any_target: bool = False, progress=lambda state: None) -> Loaded:
    """A published drafter from a folder or hub id, in the target's number format and on its device, checked against it: a
    Loaded whose model is the drafter's net."""
    folder = Path(source) if Path(source).is_dir() else from_hub(str(source), progress).folder
    if not (folder / "config.json").is_file():
        raise LoadError(f"{folder} has no config.json. Possible: a folder or hub id of {', '.join(FORMATS)}.")
    raw = json.loads((folder / "config.json").read_text())
    families = raw.get("architectures") or []
    family = next((FORMATS[name] for name in families if name in FORMATS), None)
    if family is None:
        raise LoadError(f"{folder} holds {families or 'no architecture'}. Possible: {', '.join(FORMATS)}.")
    with torch.device("meta"):
        net = family(raw)
    tensors, facts, digests = {}, {}, []
    for path in sorted(folder.glob("*.safetensors")):
        part, found = _read(path)
        tensors |= part
        facts |= found
        digests.append(sha256(path))
    kinds = sorted({str(t.dtype).removeprefix("torch.") for t in tensors.values()})
    shared = {name: tensors.pop(name) for name in SHARED if name in tensors}
    _fit(net, target, facts.get("target_hash"), any_target)
    for name, matrix in shared.items():
        _same(name, matrix, getattr(target.model, SHARED[name])().weight)
    digest = digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    words = f"{'/'.join(kinds)} weights"
    return replace(target, model=_fill(net, tensors, target), name=str(source), weights=words, hash=digest[:16])


def export(net: Backbone, target: Loaded, folder: Path) -> None:
    """Write a drafter in the published 16-bit layout that fits it, embedding and output matrix included where it has them."""
    config, dspark = net.config, isinstance(net, DSpark)
    if dspark and not config.anchor_guesses:
        raise ValueError("no published format holds a DSpark drafter whose anchor's slot guesses nothing")
    raw = {
        "architectures": ["Qwen3DSparkModel" if config.anchor_guesses else "DFlashDraftModel"], "model_type": "qwen3",
        "hidden_size": config.hidden, "intermediate_size": config.intermediate, "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads, "num_key_value_heads": config.key_heads, "head_dim": config.head_dim,
        "vocab_size": config.vocabulary, "num_target_layers": config.target_layers, "block_size": config.block,
        "rms_norm_eps": config.eps, "max_position_embeddings": config.context, "hidden_act": "silu",
        "layer_types": ["full_attention"] * config.layers, "attention_bias": False, "tie_word_embeddings": False,
        "dtype": "bfloat16",
    }  # fmt: skip
    places = {"target_layer_ids": list(config.taps), "mask_token_id": config.mask}
    tensors = dict(net.state_dict())
    if config.anchor_guesses:
        heads = {"markov_rank": 0, "enable_confidence_head": False}
        if dspark:
            heads = {
                "markov_rank": config.markov_rank, "markov_head_type": config.markov_kind,
                "enable_confidence_head": config.confidence, "confidence_head_with_markov": config.confidence_reads_token,
            }  # fmt: skip
        raw |= places | heads | {"rope_parameters": {"rope_type": "default", "rope_theta": config.theta}}
        tensors |= {name: getattr(target.model, getter)().weight for name, getter in SHARED.items()}
    else:
        raw |= {"dflash_config": places, "rope_theta": config.theta}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(raw, indent=2))
    halves = {name: tensor.detach().to("cpu", torch.bfloat16, copy=True) for name, tensor in tensors.items()}
    save_file(halves, folder / "model.safetensors", metadata={"format": "pt", "target_hash": target.hash})


# ---- files of our own


def store(net: Backbone, path: Path, target_hash: str, **facts: str) -> None:
    """Keep a drafter in one file, a quarter of its 32-bit size; `facts` (how it was trained) travel with it."""
    header = {"kind": kind_of(net), "config": json.dumps(asdict(net.config)), "target_hash": target_hash, **facts}
    tensors = pack(net.state_dict())
    if net.words is not None:
        tensors["words"] = net.words.ids.to("cpu", torch.int32)
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".partial")
    try:
        save_file(tensors, half, metadata=header)
        os.replace(half, path)
    finally:
        half.unlink(missing_ok=True)


def kind_of(net: nn.Module) -> str:
    """The method that a net drafts for."""
    return next(name for name, (cls, _) in NETS.items() if type(net) is cls)


def find(kind: str, target_hash: str) -> Path | None:
    """The stored drafter of a kind that was trained for weights with this hash: one that travels with the program, else one
    that engine.training left in the cache."""
    for path in [
        p for folder in (STORED, cache_folder() / "training") for p in sorted(folder.glob(f"**/{kind}-*.safetensors"))
    ]:
        found = facts(path)
        if found.get("kind") == kind and found.get("target_hash") == target_hash:
            return path
    return None


def restore(path: Path, target: Loaded, any_target: bool = False) -> Loaded:
    """A stored drafter, in the target's number format and on its device: a Loaded whose model is the drafter's net."""
    tensors, facts = _read(path)
    if facts.get("kind") not in NETS:
        raise LoadError(f"{path} was not stored by engine.training: its kind is {facts.get('kind')!r}")
    cls, shape = NETS[facts["kind"]]
    config = json.loads(facts["config"])
    if "taps" in config:
        config["taps"] = tuple(config["taps"])
    with torch.device("meta"):
        net = cls(target.model, shape(**config)) if cls is Pruned else cls(shape(**config))
    _fit(net, target, facts["target_hash"], any_target)
    own = tensors.pop("words", None)
    net, words = _fill(net, unpack(tensors), target), f"trained for {target.name}, 8-bit rows"
    if own is not None:
        embedding = target.model.get_input_embeddings().weight
        net.words = Words(own.long().to(embedding.device), len(embedding))
    return replace(target, model=net, name=path.stem, weights=words, hash=sha256(path)[:16])


def pack(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices [rows, columns] become int8 with one float32 scale per row, "NAME.scale"; vectors stay float32."""
    out = {}
    for name, tensor in state.items():
        tensor = tensor.detach().float().cpu()
        if tensor.dim() == 2:
            out[f"{name}.scale"] = scale = tensor.abs().amax(1) / 127
            tensor = (tensor / scale.clamp_min(1e-30)[:, None]).round().to(torch.int8)
        out[name] = tensor.contiguous()
    return out


def unpack(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What `pack` packed, in float32; no entry is off by more than half a step of its row, 1/254 of the row's largest."""
    scales = {name.removesuffix(".scale"): t for name, t in tensors.items() if name.endswith(".scale")}
    plain = {name: t for name, t in tensors.items() if not name.endswith(".scale")}
    return {name: t.float() * scales[name][:, None] if name in scales else t for name, t in plain.items()}


# ---- checks


def facts(path: Path) -> dict[str, str]:
    """What travels with stored weights: kind, config, target, and how they were trained."""
    try:
        with safe_open(path, "pt") as file:
            return file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise LoadError(f"{path} cannot be read ({error}): fetch or save it again") from error


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise LoadError(f"{path} is damaged ({error}): fetch or save it again") from error


def _fit(net: Backbone, target: Loaded, trained_for: str | None, any_target: bool) -> None:
    """Refuse a target of another shape, and one with other weights than those the drafter was trained for."""
    if trained_for not in (None, target.hash) and not any_target:
        raise LoadError(f"the drafter was trained for weights {trained_for}; {target.name} has {target.hash}")
    if isinstance(net, Pruned):
        return
    config, rows = net.config, target.model.get_input_embeddings().weight.shape[0]
    theirs = target.model.config.get_text_config()
    for what, ours, its in (
        ("hidden size", config.hidden, theirs.hidden_size),
        ("layers", config.target_layers, theirs.num_hidden_layers),
        ("vocabulary rows", config.vocabulary, rows),
    ):
        if ours != its:
            raise LoadError(f"the drafter is for a target with {what} {ours}; {target.name} has {its}")
    last = config.target_layers - 1
    if not all(0 <= tap < last for tap in config.taps):  # some formats mean the normalised output by the last one
        raise LoadError(f"the drafter taps layers {list(config.taps)}; of {target.name} it may tap 0 to {last - 1}")
    if not 0 <= config.mask < rows:
        raise LoadError(f"the drafter's mask is id {config.mask}; the target's embedding has {rows} rows")


def _same(name: str, theirs: Tensor, ours: Tensor) -> None:
    """Refuse a checkpoint whose own copy of a shared matrix is not the target's."""
    if theirs.shape != ours.shape:
        raise LoadError(
            f"{name} of the drafter is {list(theirs.shape)}, the target's {list(ours.shape)}: it has its own"
        )
    if not torch.allclose(theirs.float(), ours.float().cpu(), rtol=2**-7, atol=1e-6):  # one rounding to 16 bit
        raise LoadError(f"{name} of the drafter is not the target's: it was trained for other weights, or has its own")


def _fill(net: Backbone, tensors: dict[str, Tensor], target: Loaded) -> Backbone:
    """Move tensors into an empty net; every name and shape must match."""
    wanted = {name: list(p.shape) for name, p in net.state_dict().items()}
    found = {name: list(t.shape) for name, t in tensors.items()}
    if wanted != found:
        missing, left = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
        shapes = [
            f"{n} {found[n]}, not {wanted[n]}" for n in sorted(wanted.keys() & found.keys()) if wanted[n] != found[n]
        ]
        words = {"missing": missing, "not expected": left, "of another shape": shapes}
        raise LoadError("the drafter's weights: " + "; ".join(f"{k}: {', '.join(v)}" for k, v in words.items() if v))
    weight = target.model.get_input_embeddings().weight
    net.load_state_dict({name: t.to(weight.device, weight.dtype) for name, t in tensors.items()}, assign=True)
    return net.requires_grad_(False).eval()
