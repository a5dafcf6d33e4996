"""A vLLM plugin (entry point `vllm.general_plugins`), which vLLM loads in each of its processes: changes that
a continuation needs and that vLLM 0.32 has no setting for."""

from core.runtime import crashes
from engine.backends import vllm_grammar, vllm_seeded_sampling


def installed() -> bool:
    """True where this process has all changes."""
    return vllm_seeded_sampling.installed() and vllm_grammar.installed()


def register() -> None:
    """Called by vLLM, perhaps several times in a process."""
    crashes.install_in_child("engine")  # vLLM writes requests where one of its processes fails
    vllm_seeded_sampling.install()
    vllm_grammar.install()
