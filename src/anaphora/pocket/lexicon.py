"""The lexicon: nouns, adjectives and verbs with both languages' forms and the company they keep.

Every table is read as text so that a person who knows both languages can proofread it. Tags say what a word may
combine with (*selectional restrictions*): only what is ``openable`` is opened, only animals are fed. Words that mean
two things are not here; ``pocket_senses.py`` has them.
"""

from dataclasses import dataclass

from anaphora.pocket.morphology import Gender


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun. ``sense`` is empty for ordinary nouns, and names the sense of an ambiguous one."""

    english: str
    english_plural: str
    gender: Gender
    german: str
    german_plural: str
    genitive: str
    tags: frozenset[str]
    sense: str = ""

    def singular(self, case: str) -> str:
        """The German singular. Weak masculines take *-n* outside the nominative: *der Bauer, den Bauern*."""
        if case == "gen":
            return self.genitive
        if case != "nom" and self.gender == "m":
            if self.genitive == "Buchstabens":
                return "Buchstaben"
            if self.genitive.endswith("n"):
                return self.genitive
        return self.german

    def plural(self, case: str) -> str:
        """The German plural; the dative adds *-n* where the word does not end in *n* or *s*: *den Hunden*."""
        if case == "dat" and self.german_plural[-1] not in "ns":
            return self.german_plural + "n"
        return self.german_plural


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective: *expensive* is *teuer*, its inflected stem *teur-*, its comparative *teurer*."""

    english: str
    english_comparative: str
    german: str
    stem: str
    german_comparative: str
    sense: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb with its principal parts. ``prefix`` is the separable one: *lädt … ein*, *eingeladen*."""

    english: str
    third: str
    past: str
    participle: str
    infinitive: str
    german_third: str
    german_past: str
    german_participle: str
    auxiliary: str
    prefix: str
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    object_case: str
    passive: bool
    sense: str = ""

    @property
    def german_past_plural(self) -> str:
        """*kaufte, kauften*; *las, lasen*."""
        return self.german_past + ("n" if self.german_past.endswith("e") else "en")


# english, plural, gender, German, plural, genitive, tags
NOUNS_TABLE = """
man        men        m Mann       Männer     Mannes      person owner adult suspect
woman      women      f Frau       Frauen     Frau        person owner adult suspect
boy        boys       m Junge      Jungen     Jungen      person young suspect
girl       girls      n Mädchen    Mädchen    Mädchens    person young
child      children   n Kind       Kinder     Kindes      person owner young
farmer     farmers    m Bauer      Bauern     Bauern      person owner adult suspect
teacher    teachers   m Lehrer     Lehrer     Lehrers     person owner adult
doctor     doctors    m Arzt       Ärzte      Arztes      person adult
cook       cooks      m Koch       Köche      Kochs       person adult
king       kings      m König      Könige     Königs      person owner adult
queen      queens     f Königin    Königinnen Königin     person owner adult
nurse      nurses     f Krankenschwester Krankenschwestern Krankenschwester person adult
hunter     hunters    m Jäger      Jäger      Jägers      person adult suspect
neighbour  neighbours m Nachbar    Nachbarn   Nachbarn    person owner adult suspect
aunt       aunts      f Tante      Tanten     Tante       person kin adult
mother     mothers    f Mutter     Mütter     Mutter      person kin adult
father     fathers    m Vater      Väter      Vaters      person kin adult
sister     sisters    f Schwester  Schwestern Schwester   person kin
student    students   m Student    Studenten  Studenten   person adult
thief      thieves    m Dieb       Diebe      Diebes      suspect
dog        dogs       m Hund       Hunde      Hundes      animal chaser pet biter
cat        cats       f Katze      Katzen     Katze       animal chaser pet biter
horse      horses     n Pferd      Pferde     Pferdes     animal pet biter
cow        cows       f Kuh        Kühe       Kuh         animal pet
bird       birds      m Vogel      Vögel      Vogels      animal pet
fox        foxes      m Fuchs      Füchse     Fuchses     animal chaser biter
goat       goats      f Ziege      Ziegen     Ziege       animal pet biter
rabbit     rabbits    n Kaninchen  Kaninchen  Kaninchens  animal pet
pig        pigs       n Schwein    Schweine   Schweines   animal pet
wolf       wolves     m Wolf       Wölfe      Wolfes      animal chaser biter
mouse      mice       f Maus       Mäuse      Maus        animal biter
apple      apples     m Apfel      Äpfel      Apfels      food
pear       pears      f Birne      Birnen     Birne       food
egg        eggs       n Ei         Eier       Eis         food cookable
potato     potatoes   f Kartoffel  Kartoffeln Kartoffel   food cookable
cake       cakes      m Kuchen     Kuchen     Kuchens     food
carrot     carrots    f Karotte    Karotten   Karotte     food cookable
sausage    sausages   f Wurst      Würste     Wurst       food cookable
car        cars       n Auto       Autos      Autos       object machine washable
bicycle    bicycles   n Fahrrad    Fahrräder  Fahrrads    object machine washable losable
lamp       lamps      f Lampe      Lampen     Lampe       object machine portable
table      tables     m Tisch      Tische     Tisches     object portable
chair      chairs     m Stuhl      Stühle     Stuhls      object machine portable
bag        bags       f Tasche     Taschen    Tasche      object portable openable losable washable
coat       coats      m Mantel     Mäntel     Mantels     object losable washable
hat        hats       m Hut        Hüte       Hutes       object losable
shirt      shirts     n Hemd       Hemden     Hemdes      object washable
key        keys       m Schlüssel  Schlüssel  Schlüssels  object losable
knife      knives     n Messer     Messer     Messers     object losable washable
bottle     bottles    f Flasche    Flaschen   Flasche     object portable openable washable
box        boxes      f Kiste      Kisten     Kiste       object portable openable
clock      clocks     f Uhr        Uhren      Uhr         object machine
suitcase   suitcases  m Koffer     Koffer     Koffers     object portable openable losable
umbrella   umbrellas  m Regenschirm Regenschirme Regenschirms object openable losable
basket     baskets    m Korb       Körbe      Korbes      object portable washable
book       books      n Buch       Bücher     Buches      readable writable losable
newspaper  newspapers f Zeitung    Zeitungen  Zeitung     readable
poem       poems      n Gedicht    Gedichte   Gedichts    readable writable
story      stories    f Geschichte Geschichten Geschichte readable writable
report     reports    m Bericht    Berichte   Berichts    readable writable losable
milk       -          f Milch      -          Milch       drink
water      -          n Wasser     -          Wassers     drink
coffee     -          m Kaffee     -          Kaffees     drink
tea        -          m Tee        -          Tees        drink
garden     gardens    m Garten     Gärten     Gartens     place goal
kitchen    kitchens   f Küche      Küchen     Küche       place
school     schools    f Schule     Schulen    Schule      place goal
market     markets    m Markt      Märkte     Marktes     place goal
park       parks      m Park       Parks      Parks       place goal
forest     forests    m Wald       Wälder     Waldes      place
village    villages   n Dorf       Dörfer     Dorfes      place
city       cities     f Stadt      Städte     Stadt       place
station    stations   m Bahnhof    Bahnhöfe   Bahnhofs    place goal
beach      beaches    m Strand     Strände    Strandes    place goal
bridge     bridges    f Brücke     Brücken    Brücke      place goal
office     offices    n Büro       Büros      Büros       place goal
church     churches   f Kirche     Kirchen    Kirche      place goal
castle     castles    n Schloss    Schlösser  Schlosses   place goal
house      houses     n Haus       Häuser     Hauses      place
"""

# english, comparative, German, inflected stem, comparative, the tags or nouns it describes (a minus excludes)
ADJECTIVES_TABLE = """
big          bigger         groß        groß        größer      animal food object place
small        smaller        klein       klein       kleiner     young animal food object place
old          older          alt         alt         älter       person animal object readable place -young
new          -              neu         neu         -           object readable place
young        younger        jung        jung        jünger      person animal
beautiful    -              schön       schön       -           object readable place animal
red          -              rot         rot         -           object apple
blue         -              blau        blau        -           object
green        -              grün        grün        -           object apple pear
white        -              weiß        weiß        -           object animal
black        -              schwarz     schwarz     -           object animal
brown        -              braun       braun       -           object animal
expensive    -              teuer       teur        teurer      object food castle book newspaper
cheap        cheaper        billig      billig      billiger    object food book newspaper
heavy        heavier        schwer      schwer      schwerer    portable machine
dirty        -              schmutzig   schmutzig   -           washable place animal
long         longer         lang        lang        länger      readable bridge coat beach
interesting  -              interessant interessant -           readable city village
friendly     -              freundlich  freundlich  -            person
tired        -              müde        müd         -           person animal
happy        -              glücklich   glücklich   -           person
sad          -              traurig     traurig     -           person
angry        -              wütend      wütend      -           person
clever       cleverer       klug        klug        klüger      person
rich         richer         reich       reich       reicher     adult
poor         -              arm         arm         -           person -king -queen
famous       -              berühmt     berühmt     -           adult place readable
brave        -              mutig       mutig       -           person
lazy         -              faul        faul        -           person animal
hungry       -              hungrig     hungrig     -           person animal
strong       stronger       stark       stark       stärker     person animal
wild         -              wild        wild        -           animal
fast         faster         schnell     schnell     schneller   animal
fresh        -              frisch      frisch      -           food drink
cold         -              kalt        kalt        -           drink
hot          -              heiß        heiß        -           coffee tea milk
quiet        -              ruhig       ruhig       -           place
dark         -              dunkel      dunkl       -           forest church kitchen castle house coat hat shirt
"""

# english forms | German forms (a separable prefix after +) auxiliary | subjects > objects [case] [passive]
VERBS_TABLE = """
buy buys bought bought | kaufen kauft kaufte gekauft haben | person > object food pet readable passive
sell sells sold sold | verkaufen verkauft verkaufte verkauft haben | person > object food pet readable passive
see sees saw seen              | sehen sieht sah gesehen haben                    | person animal > person animal
find finds found found         | finden findet fand gefunden haben                | person > object pet readable passive
cook cooks cooked cooked       | kochen kocht kochte gekocht haben                | person > cookable passive
read reads read read           | lesen liest las gelesen haben                    | person > readable passive
write writes wrote written     | schreiben schreibt schrieb geschrieben haben     | person > writable passive
carry carries carried carried  | tragen trägt trug getragen haben                 | person > portable passive
wash washes washed washed      | waschen wäscht wusch gewaschen haben             | person > washable passive
repair repairs repaired repaired | reparieren repariert reparierte repariert haben | person > machine passive
lose loses lost lost           | verlieren verliert verlor verloren haben         | person > losable
steal steals stole stolen      | stehlen stiehlt stahl gestohlen haben            | suspect > object pet passive
open opens opened opened       | öffnen öffnet öffnete geöffnet haben             | person > openable passive
need needs needed needed       | brauchen braucht brauchte gebraucht haben        | person > object
paint paints painted painted   | malen malt malte gemalt haben                    | person > animal passive
visit visits visited visited   | besuchen besucht besuchte besucht haben          | person > person passive
love loves loved loved         | lieben liebt liebte geliebt haben                | person > person pet
hear hears heard heard         | hören hört hörte gehört haben                    | person > person animal
feed feeds fed fed             | füttern füttert fütterte gefüttert haben         | person > pet passive
chase chases chased chased     | jagen jagt jagte gejagt haben                    | chaser > animal passive
bite bites bit bitten          | beißen beißt biss gebissen haben                 | biter > person passive
invite invites invited invited | laden+ein lädt lud geladen haben                 | person > person passive
call calls called called       | rufen+an ruft rief gerufen haben                 | person > person
help helps helped helped       | helfen hilft half geholfen haben                 | person > person animal dat
follow follows followed followed | folgen folgt folgte gefolgt sein               | person animal > person animal dat
drink drinks drank drunk       | trinken trinkt trank getrunken haben             | person > drink
sleep sleeps slept slept       | schlafen schläft schlief geschlafen haben        | person animal
work works worked worked       | arbeiten arbeitet arbeitete gearbeitet haben     | person
laugh laughs laughed laughed   | lachen lacht lachte gelacht haben                | person
wait waits waited waited       | warten wartet wartete gewartet haben             | person animal
dance dances danced danced     | tanzen tanzt tanzte getanzt haben                | person
sing sings sang sung           | singen singt sang gesungen haben                 | person
cry cries cried cried          | weinen weint weinte geweint haben                | person
play plays played played       | spielen spielt spielte gespielt haben            | young animal
"""

# Verbs of motion: their goal is *to* (zu + dative).
MOTION_TABLE = """
go goes went gone              | gehen geht ging gegangen sein                    | person
run runs ran run               | rennen rennt rannte gerannt sein                 | person animal
drive drives drove driven      | fahren fährt fuhr gefahren sein                  | adult
"""

# Verbs of giving: the receiver is a dative without a preposition.
GIVING_TABLE = """
give gives gave given          | geben gibt gab gegeben haben                     | person > object food readable
show shows showed shown        | zeigen zeigt zeigte gezeigt haben                | person > object readable animal
send sends sent sent           | schicken schickt schickte geschickt haben        | person > portable readable losable
lend lends lent lent           | leihen leiht lieh geliehen haben                 | person > object book
"""

# Verbs that take a clause. *Know* is wissen here; with a person as its object it is kennen (pocket_senses.py).
SAYING_TABLE = """
say says said said             | sagen sagt sagte gesagt haben                    | person
believe believes believed believed | glauben glaubt glaubte geglaubt haben        | person
hear hears heard heard         | hören hört hörte gehört haben                    | person
hope hopes hoped hoped         | hoffen hofft hoffte gehofft haben                | person
"""

# name -> pronoun gender
NAMES = {"Anna": "f", "Maria": "f", "Julia": "f", "Peter": "m", "Thomas": "m", "Martin": "m"}

# English modal -> German (third person singular, plural)
MODALS = {"can": ("kann", "können"), "must": ("muss", "müssen"), "should": ("sollte", "sollten")}

# Where something happens is *in* a place (in + dative), except here.
PLACE_PREPOSITIONS = {"market": ("at", "auf"), "station": ("at", "an"), "beach": ("on", "an"), "bridge": ("on", "auf")}

# Manner adverbs: anything can be done alone, only some of it loudly.
MANNERS = {"alone": "allein", "loudly": "laut", "quietly": "leise"}
LOUD = ("laugh", "sing", "cry")

# Verbs of state: no single day on which they happen, no modal, no future.
STATIVE = ("love", "need", "know")

# Verbs of the present tense. Not *read*: *they read* would be present or past, and have two translations.
HABITS = (
    "eat", "drink", "buy", "wash", "feed", "help", "visit", "call", "invite", "love", "need", "know", "hear", "cook",
    "see",
)  # fmt: skip

# Adjectives that *very* does not go with.
UNGRADABLE = frozenset(
    [
        "red",
        "blue",
        "green",
        "white",
        "black",
        "brown",
        "bankrupt",
        "blind",
        "wooden",
        "broken",
        "electric",
        "official",
        "royal",
        "silent",
        "hollow",
        "burnt",
    ]
)


def read_nouns(table: str, sense: str = "") -> list[Noun]:
    """Read rows of ``english plural gender German plural genitive tag...``."""
    nouns = []
    for line in filter(None, table.split("\n")):
        english, plural, gender, german, german_plural, genitive, *tags = line.split()
        assert gender in ("m", "f", "n"), line
        nouns.append(
            Noun(english, plural, gender, german, german_plural, genitive, frozenset([*tags, english]), sense)  # type: ignore[arg-type]
        )
    return nouns


def read_verbs(table: str, sense: str = "") -> list[Verb]:
    """Read rows of ``English forms | German forms | subjects > objects``; ``laden+ein`` is separable."""
    verbs = []
    for line in filter(None, table.split("\n")):
        english_part, german_part, frame = line.split("|")
        english, third, past, participle = english_part.split()
        infinitive, german_third, german_past, german_participle, auxiliary = german_part.split()
        stem, _, prefix = infinitive.partition("+")
        subjects, _, objects = frame.partition(">")
        tags = objects.split()
        verbs.append(
            Verb(
                english, third, past, participle, stem, german_third, german_past, german_participle, auxiliary, prefix,
                tuple(subjects.split()), tuple(t for t in tags if t not in ("dat", "passive")),
                "dat" if "dat" in tags else "acc", "passive" in tags, sense,
            )
        )  # fmt: skip
    return verbs


def _read_adjectives(table: str) -> dict[Adjective, tuple[frozenset[str], frozenset[str]]]:
    adjectives = {}
    for line in filter(None, table.split("\n")):
        english, comparative, german, stem, german_comparative, *tags = line.split()
        if comparative == "-" and german_comparative != "-":
            comparative = f"more {english}"
        adjective = Adjective(english, comparative, german, stem, german_comparative)
        wanted = frozenset(t for t in tags if not t.startswith("-"))
        adjectives[adjective] = (wanted, frozenset(t[1:] for t in tags if t.startswith("-")))
    return adjectives


NOUNS = {noun.english: noun for noun in read_nouns(NOUNS_TABLE)}
VERBS = read_verbs(VERBS_TABLE)
MOTION = read_verbs(MOTION_TABLE)
GIVING = read_verbs(GIVING_TABLE)
SAYING = read_verbs(SAYING_TABLE)
_DESCRIBES = _read_adjectives(ADJECTIVES_TABLE)
ADJECTIVES = {adjective.english: adjective for adjective in _DESCRIBES}


def nouns_tagged(*tags: str) -> list[Noun]:
    """All ordinary nouns that carry one of the tags, in the order of the table (a noun is a tag of its own)."""
    wanted = set(tags)
    return [noun for noun in NOUNS.values() if noun.tags & wanted]


def adjectives_of(noun: Noun) -> list[Adjective]:
    """The ordinary adjectives that can describe this noun."""
    return [a for a, (wanted, unwanted) in _DESCRIBES.items() if noun.tags & wanted and not noun.tags & unwanted]
