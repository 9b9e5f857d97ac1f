"""Ambiguous words, and the company by which their sense is known.

*Bank* is *Ufer* or *Bank*, *sick* is *krank* or *krass*: the sentence decides. Each sense of a noun lists contexts that
no other sense of the word has: adjectives, verbs it is the object of (with their subjects), verbs it is the subject of,
and nouns whose part it is. The grammar puts the same context before the word (*the thief robbed the bank*, *the muddy
bank …*) and after it (*the bank was robbed by the thief*, *the bank was muddy*), so neither reading leftwards nor
rightwards is enough.

Every sentence with an ambiguous word holds a deciding context: the test suite checks that no context is shared.
"""

from dataclasses import dataclass

from anaphora.pocket.lexicon import NOUNS, VERBS, Adjective, Noun, Verb, read_nouns, read_verbs

# english, plural, gender, German, plural, genitive
CONTEXT_NOUNS_TABLE = """
river     - m Fluss      - Flusses
lake      - m See        - Sees
tree      - m Baum       - Baumes
oak       - f Eiche      - Eiche
elephant  - m Elefant    - Elefanten
judge     - m Richter    - Richters
player    - m Spieler    - Spielers
team      - f Mannschaft - Mannschaft
engineer  - m Ingenieur  - Ingenieurs
mechanic  - m Mechaniker - Mechanikers
factory   - f Fabrik     - Fabrik
ball      - m Ball       - Balles
frog      - m Frosch     - Frosches
insect    - n Insekt     - Insekts
alphabet  - n Alphabet   - Alphabets
word      - n Wort       - Wortes
trick     - m Trick      - Tricks
jump      - m Sprung     - Sprungs
party     - f Party      - Party
question  - f Frage      - Frage
exam      - f Prüfung    - Prüfung
bed       - n Bett       - Bettes
stone     - m Stein      - Steines
"""

# english, German, inflected stem
CONTEXT_ADJECTIVES_TABLE = """
muddy schlammig schlammig
steep steil steil
bankrupt bankrott bankrott
profitable profitabel profitabl
blind blind blind
shy scheu scheu
wooden hölzern hölzern
broken zerbrochen zerbrochen
rusty rostig rostig
electric elektrisch elektrisch
official offiziell offiziell
royal königlich königlich
clear klar klar
deep tief tief
elastic elastisch elastisch
silent stumm stumm
hollow hohl hohl
rotten morsch morsch
muscular muskulös muskulös
simple einfach einfach
poetic poetisch poetisch
mild mild mild
unfair ungerecht ungerecht
wet nass nass
burnt abgebrannt abgebrannt
exciting spannend spannend
boring langweilig langweilig
friendly freundlich freundlich
hungry hungrig hungrig
"""

CONTEXT_VERBS_TABLE = """
describe describes described described | beschreiben beschreibt beschrieb beschrieben haben | -
mention mentions mentioned mentioned | erwähnen erwähnt erwähnte erwähnt haben            | -
flood floods flooded flooded       | überfluten überflutet überflutete überflutet haben       | -
rob robs robbed robbed             | rauben+aus raubt raubte geraubt haben                    | -
hire hires hired hired             | stellen+ein stellt stellte gestellt haben                | - > person
swing swings swung swung           | schwingen schwingt schwang geschwungen haben             | -
hit hits hit hit                   | treffen trifft traf getroffen haben                      | - > ball
lift lifts lifted lifted           | heben hebt hob gehoben haben                             | - > car box
build builds built built           | bauen baut baute gebaut haben                            | -
break breaks broke broken          | brechen bricht brach gebrochen haben                     | -
forge forges forged forged         | fälschen fälscht fälschte gefälscht haben                | -
pollute pollutes polluted polluted | verschmutzen verschmutzt verschmutzte verschmutzt haben  | -
bubble bubbles bubbled bubbled     | sprudeln sprudelt sprudelte gesprudelt haben             | -
stretch stretches stretched stretched | dehnen dehnt dehnte gedehnt haben                     | -
replace replaces replaced replaced | ersetzen ersetzt ersetzte ersetzt haben                  | -
receive receives received received | erhalten erhält erhielt erhalten haben                   | -
answer answers answered answered   | beantworten beantwortet beantwortete beantwortet haben   | -
arrive arrives arrived arrived     | kommen+an kommt kam gekommen sein                        | -
pronounce pronounces pronounced pronounced | sprechen+aus spricht sprach gesprochen haben     | -
raise raises raised raised         | heben hebt hob gehoben haben                             | -
split splits split split           | spalten spaltet spaltete gespalten haben                 | -
translate translates translated translated | übersetzen übersetzt übersetzte übersetzt haben  | -
impose imposes imposed imposed     | verhängen verhängt verhängte verhängt haben              | -
serve serves served served         | verbüßen verbüßt verbüßte verbüßt haben                  | -
light lights lit lit               | zünden+an zündet zündete gezündet haben                  | -
burn burns burned burned           | brennen brennt brannte gebrannt haben                    | -
win wins won won                   | gewinnen gewinnt gewann gewonnen haben                   | -
begin begins began begun           | beginnen beginnt begann begonnen haben                   | -
"""

# Two verbs whose translation depends on who does it, or to what. Fressen is what animals do.
EAT_PERSON = read_verbs(
    "eat eats ate eaten | essen isst aß gegessen haben | person > food passive", sense="eat.person"
)[0]
EAT_ANIMAL = read_verbs(
    "eat eats ate eaten | fressen frisst fraß gefressen haben | animal > food passive", sense="eat.animal"
)[0]
KNOW_PERSON = read_verbs(
    "know knows knew known | kennen kennt kannte gekannt haben | person > person", sense="know.person"
)[0]
KNOW_FACT = read_verbs("know knows knew known | wissen weiß wusste gewusst haben | person", sense="know.fact")[0]

CONTEXT_NOUNS = {noun.english: noun for noun in read_nouns(CONTEXT_NOUNS_TABLE)}
CONTEXT_ADJECTIVES = {
    english: Adjective(english, "-", german, stem, "-")
    for english, german, stem in (line.split() for line in CONTEXT_ADJECTIVES_TABLE.split("\n") if line)
}
CONTEXT_VERBS = {verb.english: verb for verb in read_verbs(CONTEXT_VERBS_TABLE)}
_ORDINARY_VERBS = {verb.english: verb for verb in VERBS}


@dataclass(frozen=True)
class NounSense:
    """One sense of an ambiguous noun, and the contexts that decide for it."""

    noun: Noun
    adjectives: tuple[Adjective, ...]
    whole: tuple[Noun, ...]
    object_of: tuple[tuple[tuple[str, ...], Verb], ...]  # (subjects, verb)
    subject_of: tuple[tuple[Verb, tuple[str, ...]], ...]  # (verb, objects; empty: intransitive)
    neutral: tuple[str, ...]  # adjectives that decide nothing

    @property
    def name(self) -> str:
        """Such as ``bank.shore``."""
        return self.noun.sense


def context_noun(english: str) -> Noun:
    """A noun of the context table or of the ordinary lexicon."""
    return CONTEXT_NOUNS[english] if english in CONTEXT_NOUNS else NOUNS[english]


def context_verb(english: str) -> Verb:
    """A verb of the context table or of the ordinary lexicon."""
    if english == "eat":
        return EAT_ANIMAL  # only animals among the ambiguous nouns eat
    return CONTEXT_VERBS[english] if english in CONTEXT_VERBS else _ORDINARY_VERBS[english]


# A sense, its noun, then its contexts: "object of" lists subject+subject verb, "subject of" lists verb object+object (a
# dash: no object). Neutral adjectives decide nothing; they are the same for both senses.
NOUN_SENSES_TABLE = """
bank.shore: bank banks n Ufer Ufer Ufers
    adjectives: muddy steep
    part of: river lake
    object of: river+lake flood
    neutral: big small beautiful
bank.money: bank banks f Bank Banken Bank
    adjectives: bankrupt profitable
    object of: thief+man+woman rob
    subject of: hire man+woman+student+cook
    neutral: big small beautiful
bat.animal: bat bats f Fledermaus Fledermäuse Fledermaus
    adjectives: blind hungry
    object of: boy+girl+child feed
    subject of: sleep -, eat insect+apple
    neutral: small old black
bat.club: bat bats m Schläger Schläger Schlägers
    adjectives: wooden broken
    object of: player+boy+girl swing
    subject of: hit ball
    neutral: small old black
crane.bird: crane cranes m Kranich Kraniche Kranichs
    adjectives: shy hungry
    object of: farmer+child+girl feed
    subject of: sleep -, eat frog+insect
    neutral: big old white
crane.machine: crane cranes m Kran Kräne Krans
    adjectives: rusty electric
    object of: engineer+mechanic build, mechanic+engineer repair
    subject of: lift car+box+stone
    neutral: big old white
seal.animal: seal seals f Robbe Robben Robbe
    adjectives: shy hungry
    object of: boy+nurse+woman feed
    subject of: sleep -, play -
    neutral: small old beautiful
seal.stamp: seal seals n Siegel Siegel Siegels
    adjectives: official royal
    object of: king+queen+judge break, thief+man+woman forge
    neutral: small old beautiful
spring.water: spring springs f Quelle Quellen Quelle
    adjectives: clear deep
    object of: factory+farmer pollute
    subject of: bubble -
    neutral: small old new
spring.coil: spring springs f Feder Federn Feder
    adjectives: rusty elastic
    part of: clock
    object of: mechanic+engineer replace, boy+mechanic stretch
    neutral: small old new
letter.mail: letter letters m Brief Briefe Briefes
    adjectives: friendly official
    object of: king+aunt+father+teacher receive, nurse+doctor+sister answer
    subject of: arrive -
    neutral: small beautiful old
letter.alphabet: letter letters m Buchstabe Buchstaben Buchstabens
    adjectives: silent
    part of: alphabet word
    object of: child+student+teacher pronounce
    neutral: small beautiful old
trunk.elephant: trunk trunks m Rüssel Rüssel Rüssels
    adjectives: muscular
    part of: elephant
    object of: elephant raise
    neutral: long big
trunk.tree: trunk trunks m Stamm Stämme Stammes
    adjectives: hollow rotten
    part of: tree oak
    object of: farmer+man+father split
    neutral: long big
sentence.words: sentence sentences m Satz Sätze Satzes
    adjectives: simple poetic
    part of: poem book
    object of: student+teacher+girl translate
    neutral: long new
sentence.punishment: sentence sentences f Strafe Strafen Strafe
    adjectives: mild unfair
    part of: thief
    object of: judge+king+queen impose, thief+man+woman serve
    neutral: long new
match.stick: match matches n Streichholz Streichhölzer Streichholzes
    adjectives: wet burnt
    object of: cook+boy+woman light
    subject of: burn -
    neutral: long old
match.game: match matches n Spiel Spiele Spiels
    adjectives: exciting boring
    object of: team+player win
    subject of: begin -
    neutral: long old
"""

# Adjective senses: english, German, inflected stem; the nouns that decide.
ADJECTIVE_SENSES_TABLE = """
sick.ill: sick krank krank; man woman boy girl child farmer king queen neighbour aunt father dog cat horse cow
sick.cool: sick krass krass; trick jump party
light.weight: light leicht leicht; suitcase bag box basket chair coat lamp
light.brightness: light hell hell; kitchen office church house castle school
hard.firm: hard hart hart; bed stone chair table
hard.difficult: hard schwierig schwierig; question exam
"""


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(first, second) for first, second in (item.split() for item in text.split(",") if item)]


def _read_noun_senses() -> dict[str, NounSense]:
    rows: dict[str, dict[str, str]] = {}
    name = ""
    for line in filter(None, NOUN_SENSES_TABLE.split("\n")):
        key, _, value = line.partition(": ")
        if line.startswith(" "):
            rows[name][key.strip()] = value
        else:
            name = key
            rows[name] = {"noun": value}
    senses = {}
    for name, row in rows.items():
        object_of, subject_of = _pairs(row.get("object of", "")), _pairs(row.get("subject of", ""))
        senses[name] = NounSense(
            noun=read_nouns(row["noun"], sense=name)[0],
            adjectives=tuple(CONTEXT_ADJECTIVES[a] for a in row["adjectives"].split()),
            whole=tuple(context_noun(n) for n in row.get("part of", "").split()),
            object_of=tuple((tuple(nouns.split("+")), context_verb(verb)) for nouns, verb in object_of),
            subject_of=tuple((context_verb(v), tuple(o.split("+")) if o != "-" else ()) for v, o in subject_of),
            neutral=tuple(row["neutral"].split()),
        )
    return senses


def _read_adjective_senses() -> list[tuple[Adjective, list[Noun]]]:
    senses = []
    for line in filter(None, ADJECTIVE_SENSES_TABLE.split("\n")):
        name, _, rest = line.partition(": ")
        forms, nouns = rest.split(";")
        english, german, stem = forms.split()
        senses.append(
            (Adjective(english, "-", german, stem, "-", sense=name), [context_noun(n) for n in nouns.split()])
        )
    return senses


NOUN_SENSES = _read_noun_senses()
ADJECTIVE_SENSES = _read_adjective_senses()

# Every ambiguous word and its senses.
AMBIGUOUS: dict[str, tuple[str, ...]] = {}
for _name in [
    *NOUN_SENSES,
    *(a.sense for a, _ in ADJECTIVE_SENSES),
    "eat.person",
    "eat.animal",
    "know.person",
    "know.fact",
]:
    _word = _name.partition(".")[0]
    AMBIGUOUS[_word] = (*AMBIGUOUS.get(_word, ()), _name)
