"""Fetches a model from the Hugging Face hub: `python -m engine.models.download ID FOLDER`.

A process of its own, so that it can be killed with all its threads. Its last line of output is the commit.
"""

import sys
from pathlib import Path

from huggingface_hub import HfApi, snapshot_download

WANTED = ("*.safetensors", "*.safetensors.index.json", "config.json", "generation_config.json", "tokenizer*")
TEMPLATES = ("*.jinja", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt")


def main(repository: str, folder: Path) -> None:
    """Download the newest commit of `repository`: weights as safetensors, tokenizer, template."""
    commit = HfApi().model_info(repository).sha
    assert commit
    snapshot_download(repository, revision=commit, local_dir=folder, allow_patterns=[*WANTED, *TEMPLATES])
    print(commit)


if __name__ == "__main__":
    try:
        main(sys.argv[1], Path(sys.argv[2]))
    except Exception as error:  # noqa: BLE001  (one line for the operator, whatever the client library raised)
        sys.exit(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else error!r}")
