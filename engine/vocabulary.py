"""Token id <-> bytes. A token is bytes, not text: a character may be spread over several tokens.

One table for the whole vocabulary, built once from the tokenizer's own spelling of its tokens: the byte alphabet of
GPT-2 (byte-level BPE) or U+2581 for a blank and <0xHH> for a byte (sentencepiece). Everything that shows text joins
bytes first and decodes afterwards, so halves of a character never become U+FFFD.
"""

import codecs
import hashlib
import json
import re

_PRINTABLE = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
GPT2_ALPHABET = {chr(byte): byte for byte in _PRINTABLE} | {chr(256 + i): byte for i, byte in enumerate(_OTHERS)}


class Vocabulary:
    """The bytes of every token of a tokenizer; `bytes[id]` is b"" for an id that stands for nothing."""

    def __init__(self, tokenizer):
        ids = tokenizer.get_vocab()
        spell = _spelling(tokenizer)
        added = tokenizer.added_tokens_decoder
        self.size = max([*ids.values(), *added]) + 1
        self.bytes = [b""] * self.size
        for token, id in ids.items():
            self.bytes[id] = spell(token)
        for id, token in added.items():  # an added token is its own text; only sentencepiece keeps runs of blanks there
            blanks = spell is _sentencepiece and not token.special
            self.bytes[id] = spell(token.content) if blanks else token.content.encode()
        digest = hashlib.sha256()
        for token in self.bytes:
            digest.update(len(token).to_bytes(4, "little") + token)
        self.hash = digest.hexdigest()[:16]

    def piece(self, id: int) -> str | list[int]:
        """A token as a string if it is whole UTF-8, else as a list of byte values."""
        try:
            return self.bytes[id].decode()
        except UnicodeDecodeError:
            return list(self.bytes[id])

    def text(self, ids) -> str:
        """The text of several tokens as they stand in the middle of a text: a leading blank is kept."""
        return b"".join(self.bytes[id] for id in ids).decode(errors="replace")

    def decoder(self) -> "Decoder":
        """A decoder for tokens that arrive one after another."""
        return Decoder(self)


class Decoder:
    """Text as it grows: only an incomplete UTF-8 tail is held back; if nothing completes it, it ends as U+FFFD."""

    def __init__(self, vocabulary: Vocabulary):
        self._vocabulary = vocabulary
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, ids) -> str:
        """The text that these tokens complete."""
        return self._utf8.decode(b"".join(self._vocabulary.bytes[id] for id in ids))

    def flush(self) -> str:
        """What was held back; call it at the end, however the end came about."""
        return self._utf8.decode(b"", final=True)


def difference(a: Vocabulary, b: Vocabulary) -> str | None:
    """None if two models with these vocabularies can be a pair, else a sentence with the first token that differs.

    Ids must mean the same bytes as far as both go. Beyond that either may go on (Qwen's sizes differ within a family):
    the pair then works on the common part, where a token that only one knows is never proposed or always refused.
    """
    for id, (one, other) in enumerate(zip(a.bytes, b.bytes, strict=False)):
        if one != other:
            return f"Token {id} is {a.piece(id)!r} in one vocabulary and {b.piece(id)!r} in the other."
    return None


def _spelling(tokenizer):
    """The function from a token as the tokenizer spells it to its bytes; ValueError if the spelling is unknown."""
    decoder = tokenizer.backend_tokenizer.decoder if tokenizer.is_fast else None
    kinds = json.loads(decoder.__getstate__()) if decoder else {}
    steps = {step["type"]: step for step in kinds.get("decoders", [kinds]) if step}
    if "ByteLevel" in steps:
        return _byte_level
    if "ByteFallback" in steps or "Metaspace" in steps:
        return _sentencepiece
    raise ValueError(
        f"{type(tokenizer).__name__} spells its tokens in a way that cannot be turned into bytes (its decoder has the "
        f"steps {sorted(steps) or 'none'}). Possible: byte-level BPE and sentencepiece, as fast tokenizers."
    )


def _byte_level(token: str) -> bytes:
    """Bytes of a byte-level token; one with a character outside the alphabet is its own text, as in `tokenizers`."""
    try:
        return bytes([GPT2_ALPHABET[character] for character in token])
    except KeyError:
        return token.encode()


def _sentencepiece(token: str) -> bytes:
    """Bytes of a sentencepiece token: <0xHH> is one byte, U+2581 a blank."""
    if byte := re.fullmatch("<0x([0-9A-F]{2})>", token):
        return bytes([int(byte[1], 16)])
    return token.replace("▁", " ").encode()
