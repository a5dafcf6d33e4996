"""The environment of child processes: what an operating system and libraries need, our settings, and of our
secrets only what that kind of process declares (core/processes.py). Pure."""

import re
from collections.abc import Mapping

from core.processes import OTEL_HEADERS, Process
from core.secret_files import SUFFIX, secret_names
from core.settings import Settings

OURS = "PARLEY_"
# Of the system, of Python, and of what an engine's libraries read.
_NAMES = (
    "PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TMPDIR TEMP TMP TERM PWD HOSTNAME VIRTUAL_ENV NO_COLOR "
    "SSL_CERT_FILE SSL_CERT_DIR LD_LIBRARY_PATH LD_PRELOAD DO_NOT_TRACK"
)
_PREFIXES = (
    "LC_ PYTHON XDG_ DYLD_ COVERAGE_ MALLOC_ CUDA NVIDIA_ NCCL_ CUBLAS_ CUDNN_ ROCR_ HIP_ HSA_ VLLM_ OMP_ "
    "KMP_ MKL_ GOMP_ OPENBLAS_ NUMBA_ TORCH PYTORCH_ TRITON_ FLASHINFER_ HF_ TRANSFORMERS_ TOKENIZERS_ RAY_ "
    "GLOO_ UCX_ FI_ IB_ OTEL_"
)
NAMES, PREFIXES = frozenset(_NAMES.split()), tuple(_PREFIXES.split())
PROXIES = frozenset({"http_proxy", "https_proxy", "no_proxy"})
SECRET = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|_KEY|CREDENTIALS?|HEADERS)$")


def child_environment(base: Mapping[str, str], process: Process | None = None) -> dict[str, str]:
    """What of ours a child gets. None: one that is no process of the platform and gets no secret."""
    allowed = set(process.secrets) if process else set[str]()
    proxies = PROXIES if process else frozenset[str]()
    withheld = {f"{OURS}{name.upper()}" for name in secret_names(Settings) if name not in allowed}
    withheld |= {name + SUFFIX for name in withheld}

    def passes(name: str) -> bool:
        if name.startswith(OURS):
            return name not in withheld
        if name.startswith("OTEL_") and OTEL_HEADERS in allowed:
            return True
        return name.lower() in proxies or (
            (name in NAMES or name.startswith(PREFIXES)) and not SECRET.search(name)
        )

    return {name: value for name, value in base.items() if passes(name)}
