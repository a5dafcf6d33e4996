"""What two versions of a model differ in, from their manifests: what changes an answer's text, by its kind.

Pure. A difference is no fault: it is shown to who changes a pool's version, since prompts are made into
other tokens, or other words, from the switch on.
"""

from collections.abc import Mapping
from typing import Any

from engine.models.fingerprint import rule_of

KINDS: Mapping[str, tuple[str, ...]] = {
    "weights": (".safetensors", ".safetensors.index.json"),
    "architecture": ("config.json",),
    "sampling defaults": ("generation_config.json",),
    "template": ("chat_template.jinja",),
    "tokenizer": (),  # whatever else a fingerprint covers
}
OTHER = "tokenizer"


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Kinds in which a version's manifest is another than the one before, in the order of KINDS. Files that
    only one of them covers, as its manifest is older, are left out."""
    old, new = _digests(before), _digests(after)
    both = old.keys() & new.keys() if rule_of(before) != rule_of(after) else old.keys() | new.keys()
    found = {_kind(name) for name in both if old.get(name) != new.get(name)}
    return [kind for kind in KINDS if kind in found]


def _digests(manifest: Mapping[str, Any]) -> Mapping[str, str]:
    return manifest.get("sha256", {})


def _kind(name: str) -> str:
    for kind, endings in KINDS.items():
        if name in endings or (kind == "weights" and name.endswith(endings)):
            return kind
    return OTHER
