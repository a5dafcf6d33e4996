"""The environment of child processes: variables of the operating system and libraries, our settings, and only
those of our secrets that this kind of process declares (core/access/processes.py). Pure."""

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from difflib import get_close_matches

from core.access.processes import OTEL_HEADERS, ProcessKind
from core.configuration.settings import Settings
from core.files.secret_files import SUFFIX, secret_names
from core.runtime import hooks

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
NEAR = 0.75
SECRET = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|_KEY|CREDENTIALS?|HEADERS)$")

# Variables that are no settings, beside those of hooks.injected, and that a child inherits from its starter:
# for commands, tests and benches alone.
HANDED = ("PARLEY_MODEL_RECORD", "PARLEY_SECRETS_FD")
_OTHERS = (
    "PARLEY_URL PARLEY_KEY PARLEY_API_URL PARLEY_TOKEN PARLEY_BENCH_LOGS PARLEY_FUZZ_SEED "
    "PARLEY_MODEL_EXAMPLES PARLEY_MODEL_STEPS PARLEY_MODEL_SHRINK"
)
OTHERS = frozenset((*HANDED, *_OTHERS.split()))
SHOWN_MAX = 10
NAME_SHOWN_MAX = 60


def setting_names() -> AbstractSet[str]:
    """Every variable that is a setting."""
    names = {f"{OURS}{name.upper()}" for name in Settings.model_fields}
    return names | {f"{OURS}{name.upper()}{SUFFIX}" for name in secret_names(Settings)}


def unknown_settings(environment: Iterable[str]) -> list[str]:
    """Variables that begin like a setting and are none, so that nobody reads them. Case does not matter."""
    known = setting_names() | OTHERS
    ours = (name for name in environment if name.upper().startswith(OURS))
    return sorted(name for name in ours if name.upper() not in known and not name.startswith(hooks.injected))


def unknown_settings_text(environment: Iterable[str]) -> str:
    """One line about unknown settings, each with the setting that may have been meant, never a value; else
    empty."""
    unknown, known = unknown_settings(environment), sorted(setting_names())
    if not unknown:
        return ""
    near = {name: get_close_matches(name.upper(), known, 1, NEAR) for name in unknown[:SHOWN_MAX]}
    said = [
        name[:NAME_SHOWN_MAX] + (f" (did you mean {found[0]}?)" if found else "")
        for name, found in near.items()
    ]
    more = f" and {len(unknown) - SHOWN_MAX} more" if len(unknown) > SHOWN_MAX else ""
    return f"ignored, since no setting is called so: {', '.join(said)}{more}"


def child_environment(base: Mapping[str, str], process: ProcessKind | None = None) -> dict[str, str]:
    """The part of an environment that a child gets. `process` None: no process of the platform, gets no
    secret."""
    allowed = set(process.secrets) if process else set[str]()
    proxies = PROXIES if process else frozenset[str]()
    withheld = {f"{OURS}{name.upper()}" for name in secret_names(Settings) if name not in allowed}
    withheld |= {name + SUFFIX for name in withheld}
    known = setting_names()

    def passes(name: str) -> bool:
        if name.startswith(OURS):  # by name: one that is misspelt may hold a secret
            return name.startswith(hooks.injected) or (name in known and name not in withheld)
        if name.startswith("OTEL_") and OTEL_HEADERS in allowed:
            return True
        return name.lower() in proxies or (
            (name in NAMES or name.startswith(PREFIXES)) and not SECRET.search(name)
        )

    return {name: value for name, value in base.items() if passes(name)}
