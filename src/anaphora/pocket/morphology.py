"""German inflection: articles and adjective endings.

A German noun phrase shows its case, gender and number once, on the first word that can show it. An article such as
*der* shows them, so the adjective after it needs only a *weak* ending (*der alte Hund*); *ein* shows nothing in three
places, where the adjective has to show it instead (*mixed*: *ein alter Hund*); and without any article the adjective
does all the work (*strong*: *rote Äpfel*). The tables below are the whole of that system.

Gender is one of ``m f n``; ``p`` (plural) behaves as a fourth gender, since the plural does not distinguish the three.
"""

from typing import Literal

Case = Literal["nom", "acc", "dat", "gen"]
Gender = Literal["m", "f", "n", "p"]

_GENDERS = "mfnp"


def _table(text: str) -> dict[tuple[str, str], str]:
    """Read rows of ``case m f n p``; a dash is the empty ending."""
    cells: dict[tuple[str, str], str] = {}
    for line in text.split("\n"):
        if line.strip():
            case, *forms = line.split()
            for gender, form in zip(_GENDERS, forms, strict=True):
                cells[case, gender] = "" if form == "-" else form
    return cells


DEFINITE = _table("""
nom der die das die
acc den die das die
dat dem der dem den
gen des der des der
""")

# Endings of dieser, and of an adjective that has no article before it.
STRONG = _table("""
nom er e  es e
acc en e  es e
dat em er em en
gen es er es er
""")

# Endings of ein, kein, sein, ihr.
INDEFINITE = _table("""
nom -  e  -  e
acc en e  -  e
dat em er em en
gen es er es er
""")

WEAK_ADJECTIVE = _table("""
nom e  e  e  en
acc en e  e  en
dat en en en en
gen en en en en
""")

MIXED_ADJECTIVE = _table("""
nom er e  es en
acc en e  es en
dat en en en en
gen en en en en
""")

# English determiner -> (German stem, table of its endings, table for the adjective after it).
DETERMINERS: dict[str, tuple[str, dict[tuple[str, str], str], dict[tuple[str, str], str]]] = {
    "the": ("", DEFINITE, WEAK_ADJECTIVE),
    "this": ("dies", STRONG, WEAK_ADJECTIVE),
    "a": ("ein", INDEFINITE, MIXED_ADJECTIVE),
    "his": ("sein", INDEFINITE, MIXED_ADJECTIVE),
    "her": ("ihr", INDEFINITE, MIXED_ADJECTIVE),
    "its": ("sein", INDEFINITE, MIXED_ADJECTIVE),
}

# Preposition + article that German writes as one word.
CONTRACTIONS = {
    ("in", "dem"): "im",
    ("an", "dem"): "am",
    ("von", "dem"): "vom",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("in", "das"): "ins",
}

# Relative and third-person pronouns by case; the genitive is not needed by any construction.
RELATIVE = _table("""
nom der die das die
acc den die das die
dat dem der dem denen
""")

PERSONAL = _table("""
nom er  sie es  sie
acc ihn sie es  sie
dat ihm ihr ihm ihnen
""")


def determiner(english: str, case: str, gender: str) -> str:
    """The German form of an English determiner: ``determiner("a", "acc", "m") == "einen"``."""
    stem, endings, _ = DETERMINERS[english]
    return stem + endings[case, gender]


def adjective_ending(english_determiner: str | None, case: str, gender: str) -> str:
    """The ending of an adjective after this determiner (``None``: none, or a number)."""
    if english_determiner is None:
        return STRONG[case, gender]
    return DETERMINERS[english_determiner][2][case, gender]


def indefinite_article(next_word: str) -> str:
    """``a`` or ``an``. No word of the lexicon needs more than its first letter (no *hour*, no *university*)."""
    return "an" if next_word[0] in "aeiou" else "a"
