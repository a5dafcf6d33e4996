"""Letters that look like others, and code points that nobody sees: the tables of folding. Pure.

From Unicode's properties and its list of confusables (UTS #39): what disguises are made of, not all there is.
"""

import re

# Letters in another form that Unicode does not decompose: in circles and squares, small capitals.
COMPATIBLE = {
    **{chr(first + at): chr(ord("a") + at) for first in (0x1F150, 0x1F170) for at in range(26)},
    **dict(zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnoprstuvwyz", strict=True)),
}
_PAIRS = (
    "ıi ȷj ɑa ɡg ɩi ʋv øo łl đd ħh ŧt ƀb ƙk ƥp ƭt ɓb ɗd ɖd ɦh ɫl ŋn ɳn ɲn ɾr ʂs ɛe ⱥa ȼc ɇe ɨi ɉj ꝁk "
    "ƶz ʐz ⱬz ƴy ɏy ℮e ƒf "  # Latin, then Cyrillic
    "аa вb еe ԁd сc ѕs һh нh ћh ђh іi јj кk ӏl мm оo өo ԛq рp тt уy үy ұy ѵv ԝw ѡw хx ҳx ьb єe "
    "қk ҡk ңh ҫc гr ԍg "
    "αa βb γy εe ζz ηh ιi κk μm νv οo ρp τt υu χx ωw σo ϳj "  # Greek
    "հh ոn սu օo ցg զq յj ժd աw "  # Armenian
    "Ꭺa Ᏼb Ꮯc Ꭰd Ꭼe Ꮐg Ꮋh Ꭵi Ꭻj Ꮶk Ꮮl Ꮇm Ꮲp Ꭱr Ꮪs Ꭲt Ꮩv Ꮃw Ꮓz "  # Cherokee
    "ꓮa ꓐb ꓚc ꓓd ꓰe ꓝf ꓖg ꓧh ꓲi ꓙj ꓗk ꓡl ꓟm ꓠn ꓳo ꓑp ꓣr ꓢs ꓔt ꓴu ꓦv ꓪw ꓫx ꓬy ꓜz"  # Lisu
)
# Each letter, as case folding leaves it, with the ASCII letter that it looks like in one case at least.
LOOK_ALIKES = {pair[0]: pair[1] for pair in _PAIRS.split()}
# What Unicode calls default-ignorable, marks on Latin, Greek, Cyrillic, Hebrew and Arabic letters, and the
# Arabic letter that only makes a word longer. Marks of other scripts are vowels, and stay.
DROPPED = re.compile(
    "[\u00ad\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u061c\u0640"
    "\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20d0-\u20f0\u3164\ufe00-\ufe0f"
    "\ufe20-\ufe2f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Scripts that put no blanks between words, and Hangul, whose words have particles glued to them: Thai to
# Tibetan, Myanmar, Khmer, Hangul, and what Chinese and Japanese are written in.
SPACELESS = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u1a20-\u1aaf\u2e80-\u2fdf\u3005-\u3007\u3021-\u318f"
    "\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uaa60-\uaa7f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff]"
)
