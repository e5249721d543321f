"""Every string of the interface, one dictionary per language with the same keys; English is the fallback."""

from app.words import en, zh

WORDS = {"en": en.WORDS, "zh": zh.WORDS}
NAMES = {"en": "English", "zh": "中文"}


def words(language: str) -> dict[str, str]:
    """The dictionary of a language, English for one that we do not have."""
    return WORDS.get(language, en.WORDS)
