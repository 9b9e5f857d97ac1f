"""Clauses: how each language orders subject, verb, objects and adverbials.

English keeps subject - verb - object. German puts the finite verb second in a main clause, whatever comes first
(*Gestern kaufte der Bauer …*), and last in a subordinate clause (*…, weil der Bauer gestern Äpfel kaufte*);
infinitives, participles and separable prefixes stand at the end of a main clause (*Der Bauer hat gestern Äpfel
gekauft*). The middle is ordered time - objects - *nicht* - manner - place.
"""

from dataclasses import dataclass
from typing import Literal

from anaphora.pocket.lexicon import MODALS, Adjective, Verb
from anaphora.pocket.pocket_phrases import (
    COMMA,
    Bilingual,
    NounPhrase,
    Prepositional,
    Pronoun,
    Time,
    Token,
    Tokens,
    Weaver,
)

Order = Literal["main", "time-first", "final", "question"]
Phrase = NounPhrase | Pronoun
Tense = str  # "past", "present", "perfect", "pluperfect", "future", or a modal: "can", "must", "should"

BE = Verb("be", "is", "was", "been", "sein", "ist", "war", "gewesen", "sein", "", ("person",), (), "acc", False)

# tense -> English (singular, plural) and German (singular, plural) auxiliaries
_WILL = (("will", "will"), ("wird", "werden"))
_HAVE = {
    ("perfect", "haben"): (("has", "have"), ("hat", "haben")),
    ("perfect", "sein"): (("has", "have"), ("ist", "sind")),
    ("pluperfect", "haben"): (("had", "had"), ("hatte", "hatten")),
    ("pluperfect", "sein"): (("had", "had"), ("war", "waren")),
}


@dataclass(frozen=True, slots=True)
class Predicate:
    """What *be* says of its subject: *very old*, *older than the dog*."""

    adjective: Adjective
    very: bool = False
    than: NounPhrase | None = None

    def realize(self, weaver: Weaver) -> Bilingual:
        """Predicative adjectives do not inflect in German."""
        english: Tokens = []
        german: Tokens = []
        if self.very:
            links = (weaver.link(),)
            english.append(("very", links))
            german.append(("sehr", links))
        if self.than is None:
            links = (weaver.link(),)
            english.append((self.adjective.english, links))
            german.append((self.adjective.german, links))
            if self.adjective.sense:
                weaver.senses.append((links[0], self.adjective.sense))
            return english, german
        parts = [(part, (weaver.link(),)) for part in self.adjective.english_comparative.split()]
        than = (weaver.link(),)
        other = self.than.realize(weaver, "nom")
        english += [*parts, ("than", than), *other[0]]
        german += [
            (self.adjective.german_comparative, tuple(i for _, ids in parts for i in ids)),
            ("als", than),
            *other[1],
        ]
        return english, german


@dataclass(frozen=True, slots=True)
class VerbGroup:
    """The verbal words of a clause. ``closing`` are the German ones at the end of a main clause.

    ``fused`` is the finite verb as a verb-final clause writes it, with its separable prefix in front: *einlud*.
    """

    english: Tokens
    finite: Token
    closing: Tokens
    fused: Token
    negation: Tokens


def verb_group(
    weaver: Weaver, verb: Verb, tense: Tense, plural: bool, *, negated: bool = False, question: bool = False
) -> VerbGroup:
    """Inflect a verb. In English the first word of the group is the one a question moves to the front."""
    number = 1 if plural else 0
    auxiliary, negation, main = (weaver.link(),), (weaver.link(),), (weaver.link(),)
    if verb.sense:
        weaver.senses.append((main[0], verb.sense))
    no_english: Tokens = [("not", negation)] if negated else []
    no_german: Tokens = [("nicht", negation)] if negated else []
    if tense in ("past", "present"):
        if tense == "past":
            german = verb.german_past_plural if plural else verb.german_past
            english, do = verb.past, "did"
        else:
            german = ("sind" if verb is BE else verb.infinitive) if plural else verb.german_third
            english, do = (verb.english if plural else verb.third), ("do" if plural else "does")
        if verb is BE:
            english = ("were" if plural else "was") if tense == "past" else ("are" if plural else "is")
            group: Tokens = [(english, main), *no_english]
            return VerbGroup(group, (german, main), [], (german, main), no_german)
        if negated or question:
            links: tuple[int, ...] = auxiliary + main  # "did ... buy" is one word in German: kaufte
            group = [(do, auxiliary), *no_english, (verb.english, main)]
        else:
            links = main
            group = [(english, main)]
        closing: Tokens = [(verb.prefix, main)] if verb.prefix else []
        return VerbGroup(group, (german, links), closing, (verb.prefix + german, links), no_german)
    if tense in ("perfect", "pluperfect"):
        english_forms, german_forms = _HAVE[tense, verb.auxiliary]
        english_main, german_main = verb.participle, verb.prefix + verb.german_participle
    else:
        english_forms, german_forms = _WILL if tense == "future" else ((tense, tense), MODALS[tense])
        english_main, german_main = verb.english, verb.prefix + verb.infinitive
    finite: Token = (german_forms[number], auxiliary)
    group = [(english_forms[number], auxiliary), *no_english, (english_main, main)]
    return VerbGroup(group, finite, [(german_main, main)], finite, no_german)


def passive_group(weaver: Weaver, verb: Verb, plural: bool) -> VerbGroup:
    """The past passive: *was robbed*, *wurde … ausgeraubt*."""
    auxiliary, main = (weaver.link(),), (weaver.link(),)
    if verb.sense:
        weaver.senses.append((main[0], verb.sense))
    finite: Token = ("wurden" if plural else "wurde", auxiliary)
    english: Tokens = [("were" if plural else "was", auxiliary), (verb.participle, main)]
    return VerbGroup(english, finite, [(verb.prefix + verb.german_participle, main)], finite, [])


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause as data; ``realize`` writes it in both languages.

    Attributes:
        subject: who or what; ``None`` where ``lead`` brings its own (relative clauses).
        verb: its main verb, ``BE`` with a predicate.
        tense: a tense or a modal.
        objects: (phrase, German case) in the order receiver, thing.
        time, place, manner, predicate: adverbials and the complement of *be*.
        negated: with *not*.
        agent: makes the clause passive: *by the thief*.
    """

    subject: Phrase
    verb: Verb
    tense: Tense = "past"
    objects: tuple[tuple[Phrase, str], ...] = ()
    time: Time | None = None
    place: Prepositional | None = None
    manner: tuple[str, str] | None = None
    predicate: Predicate | None = None
    negated: bool = False
    agent: NounPhrase | None = None

    def realize(self, weaver: Weaver, order: Order = "main", lead: Bilingual | None = None) -> Bilingual:
        """Write the clause. ``lead`` replaces the subject's words: a relative or interrogative pronoun."""
        subject = lead if lead is not None else self.subject.realize(weaver, "nom")
        plural = self.subject.plural or (self.subject.gender == "p")
        if self.agent is not None:
            group = passive_group(weaver, self.verb, plural)
        else:
            group = verb_group(
                weaver, self.verb, self.tense, plural, negated=self.negated, question=order == "question"
            )
        if self.agent is None and self.verb is not BE and not isinstance(self.subject.head_noun, str):
            weaver.facts.append(f"subject+verb:{self.subject.head}+{self.verb.english}")
        english: Tokens = []
        middle: Tokens = []
        time = self.time.realize(weaver) if self.time is not None else ([], [])
        if order != "time-first":
            middle += time[1]
        for phrase, case in self.objects:
            parts = phrase.realize(weaver, case)
            english += parts[0]
            # An unstressed pronoun moves to the front of the middle: "weil er ihn gestern sah".
            middle = parts[1] + middle if isinstance(phrase, Pronoun) else middle + parts[1]
        middle += group.negation
        if self.agent is not None:
            by = Prepositional("by", "von", "dat", self.agent).realize(weaver)
            english += by[0]
            middle += by[1]
        if self.manner is not None:
            links = (weaver.link(),)
            english.append((self.manner[0], links))
            middle.append((self.manner[1], links))
        for part in (self.predicate, self.place):
            if part is not None:
                words = part.realize(weaver)
                english += words[0]
                middle += words[1]
        if order == "final":
            # The finite verb comes last, after a participle or infinitive; a separable prefix fuses with it.
            separated = bool(group.closing) and group.fused is group.finite
            closing = [*group.closing, group.finite] if separated else [group.fused]
            return subject[0] + group.english + english + time[0], [*subject[1], *middle, *closing]
        if order == "question":
            return (
                group.english[:1] + subject[0] + group.english[1:] + english + time[0],
                [group.finite, *subject[1], *middle, *group.closing],
            )
        if order == "time-first":
            return (
                time[0] + subject[0] + group.english + english,
                [*time[1], group.finite, *subject[1], *middle, *group.closing],
            )
        return subject[0] + group.english + english + time[0], [*subject[1], group.finite, *middle, *group.closing]


def joined(weaver: Weaver, conjunction: tuple[str, str], clause: Bilingual) -> Bilingual:
    """A subordinate clause behind a conjunction; the comma German asks for before it has no counterpart."""
    links = (weaver.link(),)
    return [(conjunction[0], links), *clause[0]], [COMMA, (conjunction[1], links), *clause[1]]
