"""A tokenizer whose tokens are single bytes, for tests that choose ids by the text they stand for."""

from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel
from tokenizers.models import BPE

EOS = 256


def byte_tokenizer() -> Tokenizer:
    """Ids 0 to 255 are the bytes, 256 is the special `<eos>`."""
    tokenizer = Tokenizer(BPE(vocab={_shown(byte): byte for byte in range(256)}, merges=[]))
    tokenizer.decoder = ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<eos>", special=True)])
    assert tokenizer.token_to_id("<eos>") == EOS
    return tokenizer


def ids_of(text: str) -> list[int]:
    """The ids of a text: its UTF-8."""
    return list(text.encode())


def _shown(byte: int) -> str:
    """GPT-2's printable stand-in for a byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return chr(byte) if byte in plain else chr(256 + [b for b in range(256) if b not in plain].index(byte))
