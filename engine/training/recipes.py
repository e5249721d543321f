"""RECIPES: from a method to a net that nobody has trained yet, in a size that fits the target. `texts` are some batches of
the corpus, for a start that is solved for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

import torch
from torch import nn

from engine.drafters.block import Backbone, BlockConfig, spread
from engine.drafters.dflash import DFlash
from engine.drafters.dspark import DSpark, DSparkConfig
from engine.drafters.lesson import Batch
from engine.drafters.lm import Pruned, begin_pruned
from engine.load import Loaded
from engine.run import end_ids
from engine.training.synthesize import Template

DRAFTS = 7  # tokens that a block drafter guesses at once
LAYERS = 2  # of a block drafter
LM_LAYERS = 3  # of the pruned draft model
RANK = 56  # of the Markov head: a table of token pairs is the largest part of a small drafter


def block_config(loaded: Loaded, anchor_guesses: bool) -> BlockConfig:
    """The target's own widths; layers and block the same for every block drafter, so that they can be compared."""
    text = loaded.model.config.get_text_config()
    heads = text.num_attention_heads
    taps = spread(text.num_hidden_layers, 5) if text.num_hidden_layers > 7 else (0,)
    return BlockConfig(
        hidden=text.hidden_size,
        intermediate=text.intermediate_size,
        layers=LAYERS,
        heads=heads,
        key_heads=text.num_key_value_heads,
        head_dim=getattr(text, "head_dim", None) or text.hidden_size // heads,
        vocabulary=loaded.model.get_input_embeddings().weight.shape[0],
        target_layers=text.num_hidden_layers,
        taps=taps,
        block=DRAFTS if anchor_guesses else DRAFTS + 1,
        mask=mask_id(loaded),
        anchor_guesses=anchor_guesses,
        context=text.max_position_embeddings,
    )


def mask_id(loaded: Loaded) -> int:
    """A token that no chat holds: the last special one that neither ends nor pads nor stands in the template."""
    tokenizer, template = loaded.tokenizer, Template.of(loaded)
    busy = {tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.unk_token_id}
    busy |= end_ids(loaded) | {*template.opening, *template.to_answer, *template.to_user}
    spare = [i for i, token in tokenizer.added_tokens_decoder.items() if token.special and i not in busy]
    return max(spare, default=loaded.vocabulary.size - 1)


@torch.no_grad()
def begin(net: Backbone) -> Backbone:
    """Small random weights, and logits that begin small."""
    for module in net.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)
    nn.init.constant_(net.norm.weight, 0.25)
    return net


def lm(loaded: Loaded, texts: Iterable[Batch]) -> Pruned:
    return begin_pruned(loaded.model, LM_LAYERS, texts)


def dflash(loaded: Loaded, texts: Iterable[Batch]) -> DFlash:
    return begin(DFlash(block_config(loaded, anchor_guesses=False)))


def dspark(loaded: Loaded, texts: Iterable[Batch]) -> DSpark:
    shape = asdict(block_config(loaded, anchor_guesses=True))
    net = begin(DSpark(DSparkConfig(**shape, markov_rank=RANK)))
    nn.init.zeros_(net.markov_head.markov_w2.weight)
    return net


RECIPES = {"lm": lm, "dflash": dflash, "dspark": dspark}
