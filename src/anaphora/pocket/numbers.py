"""Numbers from 0 to 999 and dates, in English and German words.

The two languages order a number differently: *forty-seven* is *siebenundvierzig*, "seven-and-forty", and German writes
the whole number as one word: *three hundred and forty-seven*, *dreihundertsiebenundvierzig*. A model has to learn the
composition; it cannot learn 999 words by heart when some never occur in training.
"""

ENGLISH_UNITS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
ENGLISH_TENS = ["-", "-", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
GERMAN_UNITS = [
    "null",
    "eins",
    "zwei",
    "drei",
    "vier",
    "fünf",
    "sechs",
    "sieben",
    "acht",
    "neun",
    "zehn",
    "elf",
    "zwölf",
    "dreizehn",
    "vierzehn",
    "fünfzehn",
    "sechzehn",
    "siebzehn",
    "achtzehn",
    "neunzehn",
]
GERMAN_TENS = ["-", "-", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"]

ENGLISH_ORDINALS = [
    "zeroth",
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
    "thirteenth",
    "fourteenth",
    "fifteenth",
    "sixteenth",
    "seventeenth",
    "eighteenth",
    "nineteenth",
    "twentieth",
]

# Month -> (German month, number of days). February has 28: a date without a year.
MONTHS: dict[str, tuple[str, int]] = {
    "January": ("Januar", 31),
    "February": ("Februar", 28),
    "March": ("März", 31),
    "April": ("April", 30),
    "May": ("Mai", 31),
    "June": ("Juni", 30),
    "July": ("Juli", 31),
    "August": ("August", 31),
    "September": ("September", 30),
    "October": ("Oktober", 31),
    "November": ("November", 30),
    "December": ("Dezember", 31),
}

WEEKDAYS = {
    "Monday": "Montag",
    "Tuesday": "Dienstag",
    "Wednesday": "Mittwoch",
    "Thursday": "Donnerstag",
    "Friday": "Freitag",
    "Saturday": "Samstag",
    "Sunday": "Sonntag",
}

DATES = tuple((day, month) for month, (_, days) in MONTHS.items() for day in range(1, days + 1))


def english_cardinal(n: int) -> str:
    """``english_cardinal(347) == "three hundred and forty-seven"``."""
    if not 0 <= n <= 999:
        raise ValueError(f"numbers run from 0 to 999; got {n}")
    if n >= 100:
        rest = f" and {english_cardinal(n % 100)}" if n % 100 else ""
        return f"{ENGLISH_UNITS[n // 100]} hundred{rest}"
    if n < 20:
        return ENGLISH_UNITS[n]
    return ENGLISH_TENS[n // 10] + (f"-{ENGLISH_UNITS[n % 10]}" if n % 10 else "")


def german_cardinal(n: int) -> str:
    """``german_cardinal(347) == "dreihundertsiebenundvierzig"``; *eins* loses its *s* inside a number."""
    if not 0 <= n <= 999:
        raise ValueError(f"numbers run from 0 to 999; got {n}")
    if n >= 100:
        hundreds = "" if n < 200 else GERMAN_UNITS[n // 100]
        return f"{hundreds}hundert{german_cardinal(n % 100) if n % 100 else ''}"
    if n < 20:
        return GERMAN_UNITS[n]
    unit = "ein" if n % 10 == 1 else GERMAN_UNITS[n % 10]
    return (f"{unit}und" if n % 10 else "") + GERMAN_TENS[n // 10]


def english_ordinal(n: int) -> str:
    """Ordinals of the days of a month, 1 to 31: ``english_ordinal(21) == "twenty-first"``."""
    if not 1 <= n <= 31:
        raise ValueError(f"ordinals run from 1 to 31; got {n}")
    if n <= 20:
        return ENGLISH_ORDINALS[n]
    return "thirtieth" if n == 30 else f"{ENGLISH_TENS[n // 10]}-{ENGLISH_ORDINALS[n % 10]}"


def german_ordinal(n: int) -> str:
    """The dative that follows *am*: ``german_ordinal(3) == "dritten"``; *-ten* to 19, *-sten* from 20."""
    if not 1 <= n <= 31:
        raise ValueError(f"ordinals run from 1 to 31; got {n}")
    irregular = {1: "ersten", 3: "dritten", 7: "siebten", 8: "achten"}
    if n in irregular:
        return irregular[n]
    return german_cardinal(n) + ("ten" if n < 20 else "sten")


def is_compositional(n: int) -> bool:
    """Whether the number is put together from others, so that withholding it leaves all its words in training."""
    return (n > 20 and n % 10 != 0 and n % 100 > 20) or (n > 100 and n % 100 != 0)


# Numbers that count things. *Hunderteins Äpfel* is doubtful German (*hundertundein Apfel*), so a count never ends in
# 01, and a count of one is the article *a*.
COUNTS = tuple(n for n in range(2, 1000) if n % 100 != 1)
