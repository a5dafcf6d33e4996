"""Documents of levels, drawn at random: few names, so that levels ask the same things."""

from hypothesis import strategies as st

from engine.safety.documents import PolicyDetector, PolicyDocument, PolicyPattern, PolicyWords
from engine.safety.verdicts import Action

ASKED: tuple[Action | None, ...] = ("block", "redact", "flag", None)
ACTIONS = st.sampled_from(ASKED)


def _asking(entry: PolicyDetector | PolicyPattern | PolicyWords) -> bool:
    return entry.action is not None or entry.prompt is not None


DETECTORS = st.builds(
    PolicyDetector, name=st.sampled_from(("private_key", "card", "email")), action=ACTIONS, prompt=ACTIONS
)
PATTERNS = st.builds(
    PolicyPattern,
    name=st.sampled_from(("employee_id", "ticket")),
    pattern=st.sampled_from(("EMP-[0-9]{6}", "T[0-9]{4}")),
    action=ACTIONS,
    prompt=ACTIONS,
    ignore_case=st.booleans(),
)
WORDS = st.builds(
    PolicyWords,
    name=st.sampled_from(("projects", "people")),
    words=st.lists(st.sampled_from(("blue heron", "stork")), min_size=1, max_size=3).map(tuple),
    action=ACTIONS,
    prompt=ACTIONS,
)
DOCUMENTS = st.builds(
    PolicyDocument,
    detectors=st.lists(DETECTORS.filter(_asking), max_size=4).map(tuple),
    patterns=st.lists(PATTERNS.filter(_asking), max_size=4).map(tuple),
    words=st.lists(WORDS.filter(_asking), max_size=4).map(tuple),
)
LEVELS = st.one_of(st.none(), DOCUMENTS)
