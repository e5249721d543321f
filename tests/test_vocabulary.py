"""Ids and bytes: whole tables for both spellings, characters cut over tokens, pairs of vocabularies."""

import json

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from engine.vocabulary import GPT2_ALPHABET, Vocabulary, difference

BYTES = sorted(GPT2_ALPHABET, key=GPT2_ALPHABET.get)  # the token of byte b at index b


def byte_level(extra=(), special=("<|end|>",)):
    """A byte-level BPE tokenizer: the 256 bytes, then merged tokens `extra`, then special tokens."""
    vocab = {token: id for id, token in enumerate([*BYTES, *extra])}
    merges = [
        (token[:i], token[i:]) for token in extra for i in range(1, len(token)) if {token[:i], token[i:]} <= set(vocab)
    ]
    backend = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return PreTrainedTokenizerFast(tokenizer_object=backend)


def sentencepiece(pieces=("▁the", "the", "▁")):
    """A sentencepiece tokenizer with byte fallback, as Llama 2 and Gemma have it."""
    vocab = {token: id for id, token in enumerate(["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces])}
    backend = Tokenizer(models.BPE(vocab=vocab, merges=[], byte_fallback=True, unk_token="<unk>"))
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    backend.add_special_tokens([AddedToken("<▁s>", special=True, normalized=False)])
    backend.add_tokens([AddedToken("▁▁", special=False, normalized=False)])
    return PreTrainedTokenizerFast(tokenizer_object=backend)


def test_byte_level_table():
    """Every byte is itself, a merged token is its bytes, a special token is its own text."""
    vocabulary = Vocabulary(byte_level(["Ġt", "Ã©"], ["<|end|>", "<|é▁|>"]))
    assert vocabulary.bytes[:256] == [bytes([byte]) for byte in range(256)]
    assert vocabulary.bytes[256:] == [b" t", "é".encode(), b"<|end|>", "<|é▁|>".encode()]
    assert vocabulary.size == 260


def test_sentencepiece_table():
    """U+2581 is a blank, <0xHH> a byte; in a special token both are plain text."""
    vocabulary = Vocabulary(sentencepiece())
    assert vocabulary.bytes[1:257] == [bytes([byte]) for byte in range(256)]
    assert vocabulary.bytes[257:] == [b" the", b"the", b" ", "<▁s>".encode(), b"  "]


@pytest.mark.parametrize("tokenizer", [byte_level(["Ġt", "Ġth"]), sentencepiece()], ids=["byte level", "sentencepiece"])
@pytest.mark.parametrize("text", ["the thé", "🔥👩‍👩‍👧你好", "a\ufffdb", "\x00\x7f\xad"])
def test_text_equals_the_tokenizer_s_own(tokenizer, text):
    """Ids of a text give the text back, and what the tokenizer itself decodes."""
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert Vocabulary(tokenizer).text(ids) == tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text


def test_e39_leading_spaces_emoji_and_bos_text_survive():
    """Ids go through bytes and back without gaining, losing or moving anything."""
    tokenizer = byte_level(["Ġw"], ["<s>"])
    text = "  Hello <s> world 🔥 "
    ids = tokenizer.encode(text, add_special_tokens=False)
    again = Vocabulary(tokenizer).text(ids)
    assert again == text
    assert tokenizer.encode(again, add_special_tokens=False) == ids


def test_u11_pieces_of_a_character_are_bytes():
    """A whole token is a string, a part of a character a list of bytes, and both are JSON."""
    vocabulary = Vocabulary(byte_level(["Ã©"]))
    assert vocabulary.piece(256) == "é"
    assert vocabulary.piece(0xF0) == [0xF0]
    assert json.loads(json.dumps(vocabulary.piece(0x9F))) == [0x9F]


@pytest.mark.parametrize("step", [1, 2, 3])
def test_u11_emoji_and_cjk_over_several_tokens(step):
    """Fed byte by byte or in uneven rounds, no U+FFFD ever shows and the whole text arrives."""
    vocabulary, text = Vocabulary(byte_level()), "a 🔥👩‍👩‍👧你好"
    ids, decoder = list(text.encode()), vocabulary.decoder()
    parts = [decoder.feed(ids[i : i + step]) for i in range(0, len(ids), step)]
    assert not any("\ufffd" in part for part in parts)
    assert "".join(parts) + decoder.flush() == text == vocabulary.text(ids)


def test_u12_a_real_replacement_character_is_not_held_back():
    """U+FFFD that the model wrote goes through at once."""
    decoder = Vocabulary(byte_level()).decoder()
    assert decoder.feed("prefix \ufffd".encode()) == "prefix \ufffd"
    assert decoder.feed(b" after") == " after"
    assert decoder.flush() == ""


def test_u12_only_an_incomplete_tail_is_held_and_flushed():
    """A cut emoji waits; invalid bytes do not; the end shows what never came whole."""
    decoder = Vocabulary(byte_level()).decoder()
    fire = "🔥".encode()
    assert decoder.feed(b"a" + fire[:3]) == "a"
    assert decoder.flush() == "\ufffd"
    assert decoder.feed(b"\xffa") == "\ufffda"


def test_e39_difference_names_the_first_differing_token():
    """The sentence has the id and both tokens."""
    sentence = difference(Vocabulary(byte_level(["Ġt", "Ġa"])), Vocabulary(byte_level(["Ġt", "Ġb"])))
    assert "257" in sentence and "' a'" in sentence and "' b'" in sentence


def test_e38_a_longer_vocabulary_is_accepted():
    """The pair works on the common part, whichever is longer."""
    short, long = Vocabulary(byte_level(["Ġt"], [])), Vocabulary(byte_level(["Ġt", "Ġa"], ["<|end|>"]))
    assert difference(short, long) is None and difference(long, short) is None
    assert difference(short, short) is None


def test_e38_holes_stand_for_nothing():
    """An id that no token has is b"" and does not equal one that has a token."""
    tokenizer = byte_level()
    holes = type("Tokenizer", (), {})()
    holes.is_fast, holes.backend_tokenizer = True, tokenizer.backend_tokenizer
    holes.added_tokens_decoder, holes.get_vocab = {}, lambda: {"a": 0, "b": 3}
    vocabulary = Vocabulary(holes)
    assert vocabulary.bytes == [b"a", b"", b"", b"b"] and vocabulary.size == 4
    assert vocabulary.piece(1) == ""


def test_hash_tells_vocabularies_apart():
    """Same table, same hash; the boundaries between tokens count."""
    assert Vocabulary(byte_level(["Ġt"])).hash == Vocabulary(byte_level(["Ġt"])).hash
    assert Vocabulary(byte_level(["Ġt"])).hash != Vocabulary(byte_level(["Ġa"])).hash


def test_e39_unknown_spelling_is_refused():
    """A WordPiece tokenizer is refused with what is possible."""
    backend = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1, "##b": 2}, unk_token="[UNK]"))
    backend.decoder = decoders.WordPiece()
    with pytest.raises(ValueError, match="WordPiece.*Possible: byte-level BPE and sentencepiece"):
        Vocabulary(PreTrainedTokenizerFast(tokenizer_object=backend))


def test_ids_beyond_the_table_are_an_error():
    """No token is empty, and an id beyond the table is not a wrong token."""
    vocabulary = Vocabulary(byte_level(["Ġt"]))
    assert all(vocabulary.bytes)
    with pytest.raises(IndexError):
        vocabulary.piece(vocabulary.size)
