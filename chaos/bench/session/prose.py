"""English prose as a model would stream it: one text, cut where SmolLM2's tokenizer cuts it.

A load needs texts of real tokens without a model at hand. `|` stands between two tokens.
"""

_TOKENS = (
    "The| harbour| had| been| quiet| since| the| last| ferry| left|,| and| the| lamps| along| the"
    "| qu|ay| were| reflected| in| water| that| hardly| moved|.| Anna| counted| the| boats|,| as"
    "| she| did| every| evening|,| and| wrote| the| number| into| the| small| green| book| her"
    "| father| had| left| her|:| forty|-|one|,| one| fewer| than| the| day| before|.| She"
    "| wondered| which| of| them| was| missing|,| and| why| nobody| had| said| anything| about"
    "| it| at| the| market| that| morning|.| Usually| the| fishermen| talked| of| little| else|."
    '|\n|\n|"|You| are| late|,"| said| the| keeper| of| the| lighthouse| when| she| reached'
    "| the| top| of| the| stairs|.| He| did| not| look| up| from| the| clock| that| lay| in"
    "| pieces| on| his| table|.| \"|The| kettle| is| still| warm|,| I| think|.| If| it| isn|'t|,"
    '| there| is| wood| beside| the| stove|."|\n|\n|She| poured| two| cups| and| sat| down| by'
    "| the| window|.| From| up| here| one| could| see| the| whole| coast|:| the| long| grey"
    "| beach| to| the| north|,| the| cliffs| with| their| nests|,| the| new| railway| bridge"
    "| that| had| cost| more| than| the| town| would| earn| in| ten| years|.| In| clear| weather"
    "|,| the| keeper| claimed|,| one| could| even| see| the| mountains| on| the| other| side|,| "
    "|8|6| miles| away|,| but| in| three| winters| she| had| never| had| such| luck|.| What| she"
    "| saw| instead| was| weather|.| It| came| from| the| west| in| broad| bands|,| first| a"
    "| line| of| cloud| no| thicker| than| a| pencil| stroke|,| then| rain|,| then| a| cold| and"
    "| brilliant| light| in| which| every| stone| had| a| shadow|.|\n|\n|A| good| watch| is"
    "| built| from| roughly| |1|3|0| parts|,| and| the| keeper| knew| the| name| of| each| of"
    "| them|.| He| explained|,| while| he| worked|,| how| the| main|spring| stores| the| energy|,"
    "| how| the| escape|ment| lets| it| out| in| equal| portions|,| and| why| temperature| is"
    "| the| enemy| of| accuracy|.| Steel| expands| when| it| is| heated|;| a| balance| wheel"
    "| that| has| grown| by| a| few| thousand|ths| of| a| mill|imet|re| swings| more| slowly|,"
    "| and| the| clock| loses| time|.| The| solution|,| found| in| the| eighteenth| century|,"
    '| was| to| make| the| rim| of| two| metals| that| bend| against| one| another|.| "|It| is'
    '| always| the| same|,"| he| said|.| "|You| cannot| remove| an| error|,| but| you| can| set'
    '| another| error| against| it|."|\n|\n|Anna| thought| about| this| for| a| while|.| She'
    "| had| learned| at| school| that| errors| were| to| be| avoided|,| and| at| home| that| they"
    "| were| to| be| hidden|.| That| they| might| be| useful|,| if| only| one| had| two| of| them"
    "|,| was| a| new| idea| and| she| liked| it|.| Outside|,| the| first| drops| fell| on| the"
    "| glass|.| Some|where| below|,| a| door| was| closed|,| a| dog| bark|ed| twice|,| and| then"
    "| there| was| only| the| sound| of| the| sea| and| the| faint|,| irregular| t|icking| from"
    "| the| table|.| When| she| finally| stood| up| to| leave|,| it| was| almost| nine| o|'|clock"
    "|,| the| rain| had| stopped|,| and| between| two| clouds| over| the| harbour|,| quite| alone"
    "|,| there| was| a| light| that| moved|.|\n"
)

PIECES: tuple[str, ...] = tuple(_TOKENS.split("|"))
"""The text of each token; 4.36 UTF-8 bytes on average."""

BYTES_PER_TOKEN = len("".join(PIECES).encode()) / len(PIECES)


def text_of(first: int, count: int) -> str:
    """The text of `count` tokens from the `first` on, the prose repeated without end."""
    start = first % len(PIECES)
    pieces = PIECES[start : start + count]
    while len(pieces) < count:
        pieces += PIECES[: count - len(pieces)]
    return "".join(pieces)
