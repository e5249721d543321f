"""Tiny random models, drafters that exist only to be checked, and the slow oracles they are checked against."""

import math
import os

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from engine import LM, Engine, Proposal, Sampling
from engine.drafters import NoDraft, chain
from engine.drafters.block import BlockConfig
from engine.drafters.dflash import DFlash, DFlashDrafter
from engine.drafters.dspark import DSpark, DSparkConfig, DSparkDrafter
from engine.drafters.lesson import Words
from engine.drafters.lm import ModelDrafter
from engine.drafters.ngram import NgramDrafter
from engine.sampling import DRAFT, draw, uniforms, warp

DEVICE = os.environ.get("SPECSCOPE_DEVICE", "cpu")
PROMPT = [1, 2, 3, 1, 2]


def tiny(seed=0, vocab=11, layers=2, spread=0.35, dtype=torch.float64, **config):
    """A random two-layer Qwen3 on the test device."""
    torch.manual_seed(seed)
    settings = dict(
        vocab_size=vocab, hidden_size=32, intermediate_size=48, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=256, tie_word_embeddings=False,
        initializer_range=spread, bos_token_id=None, eos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    return Qwen3ForCausalLM(Qwen3Config(**settings | config)).to(DEVICE, dtype)


def save(folder, model):
    """Write a model with a byte-level tokenizer of its size; the last id ends the text."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: i for i, letter in enumerate(letters)} | {"<end>": len(letters)}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>").save_pretrained(folder)
    model.save_pretrained(folder)
    return str(folder)


class TreeDrafter:
    """Best `branch[d]` continuations of every node at depth d, deterministic: point masses. Scores from scratch."""

    taps = ()

    def __init__(self, lm, branch=(2, 2)):
        self.lm, self.branch, self._memo = lm, branch, {}

    @property
    def passes(self):
        return self.lm.passes

    def observe(self, sequences, features):
        pass

    def propose(self, sequences):
        return [self._grow(s) for s in sequences]

    def _grow(self, sequence):
        tokens, parents, level = [], [], [-1]
        for depth, branch in enumerate(self.branch):
            if depth >= sequence.room:
                break
            nodes = []
            for node in level:
                for token in self._best(sequence, _path(tokens, parents, node), branch):
                    nodes.append(len(tokens))
                    tokens.append(token)
                    parents.append(node)
            level = nodes
        return Proposal(
            torch.tensor(tokens, dtype=torch.long, device=DEVICE),
            torch.tensor(parents, dtype=torch.long, device=DEVICE),
        )

    def _logits(self, sequence, path):
        ids = (*sequence.tokens, *path)
        if ids not in self._memo:
            self.lm.cache.length[0] = 0
            self._memo[ids] = self.lm.forward([0], [torch.tensor(ids, device=DEVICE)], read="last").logits[0, 0]
        return self._memo[ids]

    def _best(self, sequence, path, branch):
        return self._logits(sequence, path).topk(branch).indices.tolist()


class SiblingDrafter(TreeDrafter):
    """Two sampled siblings after the anchor, the second drawn without replacement: q is the law given the elder one."""

    def _grow(self, sequence):
        if not sequence.room:
            return chain([], DEVICE)
        first = warp(self._logits(sequence, []), sequence.sampling)
        u = torch.tensor(
            uniforms(sequence.sampling.seed, len(sequence.tokens), DRAFT, 2), device=DEVICE, dtype=torch.float64
        )
        one = draw(first, u[0])
        second = first.index_fill(0, one, 0.0)
        if second.sum() <= 0:
            return chain(one[None], q=first[None])
        second = second / second.sum()
        tokens = torch.stack([one, draw(second, u[1])])
        return Proposal(tokens, torch.full_like(tokens, -1), q=torch.stack([first, second]))


def _path(tokens, parents, node):
    path = []
    while node >= 0:
        path.insert(0, tokens[node])
        node = parents[node]
    return path


def block_net(kind=DFlash, seed=5, vocab=11, block=4, anchor_guesses=False, dtype=torch.float64, **rest):
    """A random block drafter for `tiny()` that taps both of its layers."""
    torch.manual_seed(seed)
    shape = dict(
        hidden=32, intermediate=48, layers=2, heads=4, key_heads=2, head_dim=8, vocabulary=vocab, target_layers=2,
        taps=(0, 1), block=block, mask=vocab - 1, anchor_guesses=anchor_guesses,
    )  # fmt: skip
    config = BlockConfig if kind is DFlash else DSparkConfig
    return kind(config(**shape | rest)).to(DEVICE, dtype)


def few(vocab):
    """A drafter's own vocabulary: all ids but every third."""
    return Words(torch.tensor([i for i in range(vocab) if i % 3 != 2], device=DEVICE), vocab)


def dflash(rows, k, vocab, words=None, **rest):
    net = block_net(vocab=vocab, block=k + 1)
    net.words = words
    return DFlashDrafter(net, LM(tiny(0, vocab), rows), **rest)


def lm_few(rows, k, vocab):
    """A draft model with rows for some ids only."""
    model, words = tiny(1, vocab), few(vocab)
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight[words.ids].detach())
    return ModelDrafter(LM(model, rows), k, vocab, words)


def dspark(rows, k, vocab, markov_kind="vanilla", words=None, **rest):
    """Its Markov head knows what the target writes after prompt and one more token, so that drafts are accepted at times."""
    net = block_net(DSpark, vocab=vocab, block=k, anchor_guesses=True, markov_rank=vocab, markov_kind=markov_kind)
    target = tiny(0, vocab)
    with torch.inference_mode():
        after = target(torch.tensor([[*PROMPT, x] for x in range(vocab)], device=DEVICE)).logits[:, -1]
        net.markov_head.markov_w1.weight.copy_(torch.eye(vocab))
        net.markov_head.markov_w2.weight.copy_(2 * after.T)
        net.norm.weight.mul_(0.3)  # the backbone knows nothing
    net.words = words
    return DSparkDrafter(net, LM(target, rows), **rest)


# Every way to draft: name -> drafter for a target vocabulary, with `rows` rows and drafts of k tokens.
DRAFTERS = {
    "plain": lambda rows=1, k=4, vocab=11: NoDraft(),
    "ngram": lambda rows=1, k=4, vocab=11: NgramDrafter(k, n=2, shortest=1, device=DEVICE),
    "lm": lambda rows=1, k=4, vocab=11: ModelDrafter(LM(tiny(1, vocab), rows), k),
    "self": lambda rows=1, k=4, vocab=11: ModelDrafter(LM(tiny(0, vocab), rows), k),
    "tree": lambda rows=1, k=2, vocab=11: TreeDrafter(LM(tiny(1, vocab)), (2, 2, 1)[: max(2, min(k, 3))]),
    "dflash": lambda rows=1, k=4, vocab=11: dflash(rows, k, vocab),
    "dflash sampled": lambda rows=1, k=4, vocab=11: dflash(rows, k, vocab, sampled=True),
    "dspark": lambda rows=1, k=4, vocab=11: dspark(rows, k, vocab),
    "lm few": lambda rows=1, k=4, vocab=11: lm_few(rows, k, vocab),
    "dflash few": lambda rows=1, k=4, vocab=11: dflash(rows, k, vocab, few(vocab), sampled=True),
    "dspark few": lambda rows=1, k=4, vocab=11: dspark(rows, k, vocab, words=few(vocab)),
    "dspark short": lambda rows=1, k=4, vocab=11: dspark(rows, k, vocab, "rnn", threshold=0.5),
    "siblings": lambda rows=1, k=1, vocab=11: SiblingDrafter(LM(tiny(1, vocab))),
}


def engine(name, rows=1, rule="exact", k=4, vocab=11, model=None, vocabulary=None):
    model = tiny(0, vocab) if model is None else model
    return Engine(LM(model, rows), DRAFTERS[name](rows, k, vocab), rule, vocabulary)


def run(name, prompt=PROMPT, rule="exact", k=4, **sampling):
    """(output, steps, engine) of one sequence."""
    e = engine(name, rule=rule, k=k)
    steps = list(e.generate(prompt, Sampling(**sampling)))
    return steps[-1].sequence.output, steps, e


def run_all(e, requests):
    """Serve (prompt, Sampling) pairs in one engine; outputs in order of submission."""
    sequences = [e.submit(prompt, sampling) for prompt, sampling in requests]
    while not all(s.done for s in sequences):
        e.step()
    return [s.output for s in sequences]


@torch.inference_mode()
def argmax_oracle(n, prompt=PROMPT, model=None, stop=()):
    """Greedy decoding without a cache: one full forward a token, stock attention."""
    model = tiny(0) if model is None else model
    ids = list(prompt)
    for _ in range(n):
        ids.append(int(model(torch.tensor([ids], device=DEVICE)).logits[0, -1].argmax()))
        if ids[-1] in stop:
            break
    return ids[len(prompt) :]


@torch.inference_mode()
def exact_joint(n, sampling, vocab, prompt=PROMPT):
    """The law of the first n tokens, by enumeration: {tokens: probability}."""
    model = tiny(0, vocab)
    law = {(): 1.0}
    for _ in range(n):
        paths = list(law)
        ids = torch.tensor([[*prompt, *path] for path in paths], device=DEVICE)
        p = warp(model(ids).logits[:, -1], sampling).tolist()
        law = {(*path, x): law[path] * p[i][x] for i, path in enumerate(paths) for x in range(vocab) if p[i][x] > 0}
    return law


def chi_square_p(counts, law, total):
    """p-value of a goodness-of-fit test; cells expected less than five times are pooled. 0 if something impossible came."""
    if any(key not in law for key in counts):
        return 0.0
    cells = [(counts.get(key, 0), p * total) for key, p in law.items() if p * total >= 5]
    rest = (total - sum(c for c, _ in cells), total - sum(e for _, e in cells))
    if rest[1] >= 5:
        cells.append(rest)
    statistic = sum((c - e) ** 2 / e for c, e in cells)
    freedom = len(cells) - 1
    z = ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))  # Wilson-Hilferty
    return 0.5 * math.erfc(z / math.sqrt(2))
