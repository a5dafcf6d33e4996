"""SmolLM2 with six of its thirty layers: for what vLLM does with a model, whatever that model says.

A token costs a quarter. What it says is no language, but each word differs from the last, so that a word lost
or said twice at a seam is seen; the first layers alone would say one word for ever.
"""

import json
import shutil
import struct
from pathlib import Path
from typing import Any

LAYERS = (0, 1, 2, 3, 28, 29)
WEIGHTS = "model.safetensors"
PREFIX = "model.layers."


def shallow(folder: Path, target: Path) -> Path:
    """A model folder at `target` that has some of the layers of the one at `folder`."""
    target.mkdir()
    for file in folder.iterdir():
        if file.name not in (WEIGHTS, "manifest.json"):
            shutil.copy(file, target)
    config = json.loads((folder / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(config | {"num_hidden_layers": len(LAYERS)}))
    _copy_layers(folder / WEIGHTS, target / WEIGHTS)
    return target


def _copy_layers(whole: Path, target: Path) -> None:
    """The format: the header's length, the header (a JSON object of tensors and their places), the data."""
    with whole.open("rb") as source, target.open("wb") as out:
        (length,) = struct.unpack("<Q", source.read(8))
        header: dict[str, Any] = json.loads(source.read(length))
        kept: dict[str, Any] = {"__metadata__": header.pop("__metadata__")}
        places: list[tuple[int, int]] = []
        end = 0
        for name, tensor in header.items():
            if (renamed := kept_name(name)) is None:
                continue
            start, stop = tensor["data_offsets"]
            places.append((start, stop))
            kept[renamed] = tensor | {"data_offsets": [end, end + stop - start]}
            end += stop - start
        packed = json.dumps(kept).encode()
        out.write(struct.pack("<Q", len(packed)) + packed)
        for start, stop in places:
            source.seek(8 + length + start)
            out.write(source.read(stop - start))


def kept_name(name: str) -> str | None:
    """What a tensor is called where only LAYERS are left; None: it is of another. Pure."""
    if not name.startswith(PREFIX):
        return name
    layer, _, rest = name.removeprefix(PREFIX).partition(".")
    return f"{PREFIX}{LAYERS.index(int(layer))}.{rest}" if int(layer) in LAYERS else None
