"""The pipeline on a toy target: chats, features, training, resuming, tuning; and every way it can go wrong."""

import json
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from toys import DEVICE, save, tiny

from engine import LM, Engine, Sampling, checkpoints
from engine.drafters.dflash import DFlashDrafter
from engine.drafters.dspark import DSparkDrafter
from engine.drafters.lesson import move
from engine.drafters.lm import ModelDrafter, Pruned, PrunedConfig
from engine.load import load_model
from engine.training import corpus as corpora
from engine.training import synthesize as synthesis
from engine.training.card import card
from engine.training.corpus import ANSWER, FORCED, USER, Corpus, NoCorpus
from engine.training.harvest import harvest
from engine.training.train import Plan, Trainer, TrainingFailed, main, train

METHODS = ("lm", "dflash", "dspark")
FOLDER = []  # where the target lies


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """A model that likes to count: ids lie on circles, what is read is one step further on. That can be learnt, and random
    layers in between make it wrong at times."""
    model = tiny(3, vocab=257, spread=0.3, dtype=torch.float32, layers=6)
    angles = torch.arange(257)[:, None] * torch.logspace(0, -1.5, 16)
    circles = 0.5 * torch.cat([angles.cos(), angles.sin()], -1)
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(circles)
        model.lm_head.weight.copy_(2 * circles.roll(1, 0))
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.mul_(0.1)
            layer.mlp.down_proj.weight.mul_(0.1)
    folder = save(tmp_path_factory.mktemp("target"), model)
    FOLDER.append(folder)
    return load_model(folder, dtype="float32", device=DEVICE)


@pytest.fixture(scope="module")
def chats(target, tmp_path_factory):
    folder = tmp_path_factory.mktemp("chats")
    synthesis.synthesize(target, folder, 256, length=48, rows=128, seed=1)
    return folder


@pytest.fixture(scope="module")
def corpus(target, chats):
    return corpora.read([chats], target.vocabulary.size)


@pytest.fixture(scope="module")
def features(target, corpus, tmp_path_factory):
    return harvest(target, corpus, tmp_path_factory.mktemp("features"), (0,))


@torch.inference_mode()
def stock(target, ids):
    """The target's forward by transformers alone."""
    target.model.set_attn_implementation("sdpa")
    try:
        return target.model(ids, output_hidden_states=True, use_cache=False)
    finally:
        target.model.set_attn_implementation("slab")


def plan(method, steps, **rest):
    settings = {"batch": 8, "anchors": 24, "rate": 3e-3, "words": 200, "seed": 2, "dtype": "float32"}
    return Plan(method, steps, **settings | rest)


def test_the_target_writes_chats_in_turns(target, corpus):
    """Roles follow the template, answers have four temperatures, and T=0 answers are the target's own argmax."""
    assert corpus.tokens.shape == (256, 48) and set(corpus.role.ravel()) <= {FORCED, USER, ANSWER}
    assert {float(t) for t in corpus.temperature} == {np.float32(t) for t in synthesis.TEMPERATURES}
    assert (corpus.role == ANSWER).sum() > 2000
    checked = 0
    for row in np.flatnonzero(corpus.temperature == 0)[:6]:
        ids = torch.from_numpy(corpus.tokens[row].astype("int64"))[None].to(DEVICE)
        best = stock(target, ids).logits[0].argmax(-1).cpu().numpy()
        mine = corpus.role[row, 1:] == ANSWER
        assert (best[:-1][mine] == corpus.tokens[row, 1:][mine]).all()
        checked += mine.sum()
    assert checked


def test_a_stopped_synthesis_goes_on_and_writes_the_same(target, chats, tmp_path):
    shutil.copy(sorted(chats.glob("*.npz"))[0], tmp_path)
    synthesis.synthesize(target, tmp_path, 256, length=48, rows=128, seed=1)
    again, first = (corpora.read([folder], 257) for folder in (tmp_path, chats))
    assert again.hash == first.hash


def test_prompts_of_ones_own_open_the_chats(target, tmp_path):
    prompts = ["abc", "xyz!"]
    synthesis.synthesize(target, tmp_path, 8, length=40, rows=8, seed=0, prompts=prompts)
    mine = corpora.read([tmp_path], 257)
    spelt = [target.tokenizer(p, add_special_tokens=False).input_ids for p in prompts]
    for i, (tokens, role) in enumerate(zip(mine.tokens.tolist(), mine.role.tolist(), strict=True)):
        given = spelt[i // 4 % 2]
        at = next(k for k in range(8) if tokens[k : k + len(given)] == given)
        assert set(role[: at + len(given)]) == {FORCED} and ANSWER in role


def test_features_are_what_a_whole_forward_gives(target, corpus, features):
    ids = torch.from_numpy(corpus.tokens[[5, 40]].astype("int64")).to(DEVICE)
    taps, last, total = features.get([5, 40])
    whole = stock(target, ids)
    out = whole.hidden_states
    torch.testing.assert_close(total, whole.logits.logsumexp(-1).cpu(), atol=1e-3, rtol=0)
    for found, expected in ((taps, out[1]), (last, out[-1])):
        torch.testing.assert_close(found.float(), expected.float().cpu(), atol=0.03, rtol=0.02)  # kept as bfloat16


@pytest.mark.parametrize("method", METHODS)
def test_acceptance_rises_and_the_stored_net_drafts_as_measured(target, corpus, features, tmp_path, method):
    """Held out, at T=0. The measure is teacher-forced; the engine, drafting for real, keeps just as much in every round."""
    trainer = Trainer(plan(method, 200, rate=6e-3), target, corpus, features)
    train(trainer, tmp_path / "checkpoint.pt", measure_every=100)
    first, last = trainer.curve[0], trainer.curve[-1]
    rise = 0.02 if method == "lm" else 0.3  # lm starts from least squares, the others from nothing
    assert last["tokens_per_pass"] > first["tokens_per_pass"] + rise, trainer.curve
    path = tmp_path / f"{method}.safetensors"
    checkpoints.store(trainer.net, path, target.hash, **trainer.facts("test"))
    net, lm = checkpoints.restore(path, target).model, LM(target.model)
    assert net.words.ids.tolist() == trainer.net.words.ids.tolist()
    rows = [row for row in trainer.held_out if ANSWER in corpus.role[row, :24]][:6]
    expected = {row: kept_by_text(net, trainer, row) for row in rows}
    drafter = {
        "lm": lambda: ModelDrafter(LM(net.model(target.model)), 7, words=net.words),
        "dflash": lambda: DFlashDrafter(net, lm),
        "dspark": lambda: DSparkDrafter(net, lm),
    }[method]()
    checked = 0
    for row in rows:
        start = int(np.flatnonzero(corpus.role[row] == ANSWER)[0])
        for step in list(Engine(lm, drafter).generate(corpus.tokens[row, :start].tolist(), Sampling(max_new=48)))[1:]:
            if step.start + 7 <= 48:  # as far as the chat reaches
                assert len(step.verdict.path) == expected[row][step.start - 1], (row, step.start)
                checked += 1
    assert checked > 10


@torch.inference_mode()
def kept_by_text(net, trainer, row):
    """How many tokens of a block anchored at each place of a chat agree with the chat, by teacher forcing."""
    batch = trainer.texts([row], torch.Generator())
    anchors = torch.arange(batch.tokens.shape[1] - 7, device=DEVICE)[None]
    seen = LM(trainer.loaded.model).forward([0], [batch.tokens[0]], read="none", taps=trainer.features.taps).features
    batch = replace(batch, own=torch.ones_like(batch.own), anchors=anchors, features=seen)  # not rounded to 16 bit
    agree, _ = net.agree(trainer.embed, trainer.head, batch)
    return agree[0].long().cumprod(-1).sum(-1).tolist()


@pytest.mark.parametrize("method", METHODS)
def test_killed_and_resumed_gives_the_same_weights(target, corpus, features, tmp_path, method):
    whole = Trainer(plan(method, 12), target, corpus, features)
    for _ in range(12):
        whole.step()
    part = Trainer(plan(method, 12), target, corpus, features)
    for _ in range(5):
        part.step()
    part.save(tmp_path / "checkpoint.pt")
    part.step()  # lost with the process
    rest = Trainer(plan(method, 12), target, corpus, features)
    rest.resume(tmp_path / "checkpoint.pt")
    while rest.done < 12:
        rest.step()
    assert whole.master.keys() == rest.master.keys()
    assert all(torch.equal(whole.master[name], rest.master[name]) for name in whole.master)
    assert not torch.equal(whole.master[name := next(iter(whole.master))], part.master[name])


def test_tuning_to_ones_own_prompts_raises_acceptance_there(target, corpus, features, tmp_path):
    """The command line from prompts to tuned weights: chats, features and training in one cache, then the curve."""
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("aaaa bbbb\n\nzzzz zzzz zzzz\n", encoding="utf-8")
    general = Trainer(plan("dspark", 40), target, corpus, features)
    for _ in range(40):
        general.step()
    start = tmp_path / "general.safetensors"
    checkpoints.store(general.net, start, target.hash, **general.facts("test"))
    folder = tmp_path / "mine"
    synthesis.synthesize(target, folder, 192, length=48, rows=96, seed=4, prompts=synthesis.read_prompts(prompts))
    mine = corpora.read([folder], 257)
    tuned = Trainer(plan("dspark", 40), target, mine, harvest(target, mine, tmp_path / "f", (0,)), start)
    before = tuned.measure()["tokens_per_pass"]
    for _ in range(40):
        tuned.step()
    assert tuned.measure()["tokens_per_pass"] > before + 0.05


def test_the_command_trains_resumes_and_stores(target, chats, tmp_path, monkeypatch, capsys):
    folder = save(tmp_path / "target", target.model)
    monkeypatch.setenv("SPECSCOPE_CACHE", str(tmp_path / "cache"))
    settings = ["--steps", "4", "--batch", "4", "--anchors", "8", "--words", "100", "--dtype", "float32"]
    command = [
        "train",
        "dflash",
        "--corpus",
        str(chats),
        "--features",
        str(tmp_path / "f"),
        "--target",
        folder,
        *settings,
    ]
    monkeypatch.setattr("sys.argv", [*command, "--out", str(tmp_path / "a.safetensors")])
    main()
    monkeypatch.setattr("sys.argv", [*command, "--out", str(tmp_path / "b.safetensors")])
    main()  # resumes a run that is done: stores the same weights again
    a, b = (checkpoints._read(tmp_path / name) for name in ("a.safetensors", "b.safetensors"))
    assert all(torch.equal(a[0][name], b[0][name]) for name in a[0])
    facts = a[1]
    assert facts["corpus"] and facts["target_hash"] and json.loads(facts["curve"])[-1]["step"] == 4
    assert "train dflash" in facts["command"] and facts["torch"] == torch.__version__
    text = card(tmp_path / "a.safetensors")
    assert "arXiv 2602.06036" in text and facts["corpus"] in text and "| 4 |" in text and target.hash in text
    monkeypatch.setattr("sys.argv", [*command[:-4], "--words", "90", "--dtype", "float32"])
    with pytest.raises(SystemExit, match="of another run"):
        main()
    capsys.readouterr()


def test_one_command_does_all_of_it_and_goes_on(target, tmp_path, monkeypatch, capsys):
    """Chats, features, and every drafter; a second call finds everything done."""
    from engine.training.__main__ import main as everything

    folder = save(tmp_path / "target", target.model)
    size = ["--chats", "96", "--rows", "96", "--steps", "2", "--batch", "4", "--anchors", "8"]
    arguments = ["--work", str(tmp_path / "work"), "--target", folder, "--dtype", "float32", *size]
    monkeypatch.setattr("sys.argv", ["training", *arguments])
    everything()
    stored = sorted(path.name for path in (tmp_path / "work").glob("*.safetensors"))
    assert stored == [f"{m}-target.safetensors" for m in sorted(METHODS)]
    monkeypatch.setattr(Trainer, "step", None)  # nothing may be trained again
    everything()
    assert capsys.readouterr().out.count("tokens a pass") == 6
    (tmp_path / "prompts.txt").write_text("abc\n")
    monkeypatch.setattr("sys.argv", ["training", *arguments, "--prompts", str(tmp_path / "prompts.txt")])
    with pytest.raises(SystemExit, match="give another folder"):  # those chats were not opened with these prompts
        everything()


# ---- what can go wrong


def test_a_loss_that_leaves_the_numbers_stops_and_keeps_the_checkpoint(target, corpus, features, tmp_path):
    trainer = Trainer(plan("dflash", 50), target, corpus, features)
    trainer.step()
    trainer.save(tmp_path / "checkpoint.pt")
    kept = (tmp_path / "checkpoint.pt").read_bytes()
    with torch.no_grad():
        trainer.net.fc.weight[0, 0] = float("nan")
    with pytest.raises(TrainingFailed, match="step 2: the loss is nan"):
        train(trainer, tmp_path / "checkpoint.pt")
    assert (tmp_path / "checkpoint.pt").read_bytes() == kept


def test_a_full_disk_stops_before_anything_is_written(target, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 1000))
    with pytest.raises(OSError, match="need .* GB, .* 0.0 GB free"):
        harvest(target, corpus, tmp_path / "f", (0,))
    assert not list((tmp_path / "f").glob("*.safetensors"))


def test_a_write_that_fails_leaves_the_old_checkpoint(target, corpus, features, tmp_path, monkeypatch):
    trainer = Trainer(plan("dflash", 5), target, corpus, features)
    trainer.save(tmp_path / "checkpoint.pt")
    kept = (tmp_path / "checkpoint.pt").read_bytes()

    def broken(state, path):
        path.write_bytes(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(torch, "save", broken)
    with pytest.raises(OSError, match="no space"):
        trainer.save(tmp_path / "checkpoint.pt")
    assert (tmp_path / "checkpoint.pt").read_bytes() == kept and not list(tmp_path.glob("*.partial"))


def test_features_of_other_data_are_refused(target, corpus, features):
    with pytest.raises(NoCorpus, match="give another folder"):
        harvest(target, corpus[:64], features.folder, (0,))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: folder / "nowhere", "holds no chats"),
        (lambda folder: folder, "holds no chats"),
        (lambda folder: shard(folder, tokens=np.full((2, 8), 500)), "written by another model"),
        (lambda folder: (shard(folder), shard(folder, "b", np.zeros((2, 9), int)))[0].parent, "do not go together"),
        (lambda folder: odd(folder), "not a shard of chats"),
    ],
)
def test_a_corpus_that_cannot_be_used_is_named(tmp_path, make, words):
    with pytest.raises(NoCorpus, match=words):
        corpora.read([make(tmp_path)], 257)


def shard(folder, name="a", tokens=None):
    tokens = np.zeros((2, 8), int) if tokens is None else tokens
    Corpus(tokens.astype(np.uint16), np.zeros(tokens.shape, np.uint8), np.zeros(2)).write(folder / f"{name}.npz")
    return folder / f"{name}.npz"


def odd(folder):
    np.savez(folder / "odd.npz", tokens=np.zeros((2, 8)))
    return folder / "odd.npz"


def test_features_of_other_layers_and_weights_of_another_method_are_refused(target, corpus, features, tmp_path):
    """A drafter that reads other layers than it says would be accepted next to never, without any error."""
    other = replace(features, taps=(1,))
    with pytest.raises(NoCorpus, match="harvest those"):
        Trainer(plan("dflash", 5), target, corpus, other)
    path = tmp_path / "dflash.safetensors"
    trainer = Trainer(plan("dflash", 5), target, corpus, features)
    checkpoints.store(trainer.net, path, target.hash)
    with pytest.raises(NoCorpus, match="holds a dflash drafter, not dspark"):
        Trainer(plan("dspark", 5), target, corpus, features, path)


def test_the_targets_own_positions_survive_a_draft_model_in_16_bit(target):
    """The pruned model borrows the target's table of angles; casting it would move every token of the target."""
    half = load_model(FOLDER[0], dtype="bfloat16", device=DEVICE)
    table = half.model.get_decoder().rotary_emb.inv_freq
    before = table.clone()
    net = Pruned(half.model, PrunedConfig(2))
    move(net, half.model.get_input_embeddings().weight)
    assert table.dtype == torch.float32 and torch.equal(half.model.get_decoder().rotary_emb.inv_freq, before)
    assert net.adapter.weight.dtype == torch.bfloat16


def test_a_stop_is_obeyed_between_steps_and_loses_nothing(target, corpus, features, tmp_path):
    trainer = Trainer(plan("dflash", 50), target, corpus, features)

    def press(share, words):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(trainer, tmp_path / "checkpoint.pt", progress=press)
    assert trainer.done == 1
    again = Trainer(plan("dflash", 50), target, corpus, features)
    again.resume(tmp_path / "checkpoint.pt")
    assert again.done == 1 and again.curve == trainer.curve


def test_too_few_chats_and_an_empty_prompt_file_are_refused(target, corpus, features, tmp_path):
    with pytest.raises(NoCorpus, match="too few"):
        Trainer(plan("lm", 5), target, corpus[:60], features)
    (tmp_path / "prompts.txt").write_text("\n \n")
    with pytest.raises(ValueError, match="holds no prompt"):
        synthesis.read_prompts(tmp_path / "prompts.txt")
