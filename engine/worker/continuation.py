"""Continues a request from its log: decides whether it is complete, else what to ask of the engine. Pure.

A continuation submits the prompt and every sampled id as one prompt, with what is left of the limits. The end
is looked for in the tail first: a crash between the last id and the end must not generate past it.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from engine.backends.base import Generation
from engine.request import EndReason, RequestInput, Sampling


@dataclass(frozen=True)
class ModelLimits:
    """Facts of a model that a continuation needs. `stop_ids`: end-of-sequence and end-of-turn ids."""

    stop_ids: tuple[int, ...]
    max_model_len: int


def ids_from(packed: bytes) -> list[int]:
    """Token ids as they are stored: u32, little-endian."""
    ids = array("I")
    ids.frombytes(packed)
    return _little_endian(ids).tolist()


def pack_ids(ids: Sequence[int]) -> bytes:
    """The opposite of `ids_from`."""
    return _little_endian(array("I", ids)).tobytes()


def completed(
    sampling: Sampling, prompt_tokens: int, tail: Sequence[int], stopped: bool, limits: ModelLimits
) -> EndReason | None:
    """Reason why an answer with these ids is complete, else None. `stopped`: it holds a stop string."""
    if stopped:
        return EndReason.STOP
    if len(tail) > sampling.min_tokens and tail[-1] in limits.stop_ids:
        return EndReason.STOP
    if len(tail) >= sampling.max_tokens or prompt_tokens + len(tail) >= limits.max_model_len:
        return EndReason.LENGTH
    return None


def generation(
    key: str, tenant: str, request: RequestInput, prompt: list[int], tail: Sequence[int], limits: ModelLimits
) -> Generation:
    """The generation, named `key`, that continues an incomplete answer."""
    sampling, n = request.sampling, len(tail)
    return Generation(
        id=key,
        prompt=[*prompt, *tail],
        tail_tokens=n,
        max_tokens=min(sampling.max_tokens, limits.max_model_len - len(prompt)) - n,
        min_tokens=max(0, min(sampling.min_tokens, sampling.max_tokens) - n),
        stop_ids=limits.stop_ids,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        seed=sampling.seed,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
        repetition_penalty=sampling.repetition_penalty,
        response_format=sampling.response_format,
        salt=f"{tenant} {request.salt}" if request.salt else tenant,
    )


def _little_endian(ids: "array[int]") -> "array[int]":
    assert ids.itemsize == 4
    if array("H", [1]).tobytes() != b"\x01\x00":
        ids.byteswap()
    return ids
