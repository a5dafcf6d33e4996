"""Fetches a model from the Hugging Face hub: `python -m engine.models.download ID FOLDER [COMMIT]`.

A process of its own, so that it can be killed with all its threads. Its last line of output is the commit.
Only files of that one commit are taken, whatever the branch holds meanwhile, and none that holds code.
"""

import sys
from pathlib import Path

from huggingface_hub import HfApi, snapshot_download

WANTED = ("*.safetensors", "*.safetensors.index.json", "config.json", "generation_config.json", "tokenizer*")
TEMPLATES = ("*.jinja", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt")


def main(repository: str, folder: Path, wanted: str = "") -> None:
    """Download the wanted commit of `repository`, else its newest: weights, tokenizer, template."""
    commit = HfApi().model_info(repository, revision=wanted or None).sha
    assert commit
    wanted_files, code = [*WANTED, *TEMPLATES], ["*.py"]
    snapshot_download(
        repository, revision=commit, local_dir=folder, allow_patterns=wanted_files, ignore_patterns=code
    )
    print(commit)


if __name__ == "__main__":
    try:
        main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
    except Exception as error:  # noqa: BLE001  (one line for the operator, whatever the client library raised)
        sys.exit(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else error!r}")
