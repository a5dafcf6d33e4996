"""The pool's Lua scripts, each with the prelude it needs. Every key they touch has the pool's hash tag."""

from pathlib import Path

from core.redis import Script

FOLDER = Path(__file__).parent / "lua"


def _script(name: str, *prelude: str) -> Script:
    return Script(FOLDER / f"{name}.lua", [FOLDER / "prelude" / f"{part}.lua" for part in ("base", *prelude)])


ENQUEUE = _script("enqueue", "log", "place")
CLAIM = _script("claim", "log", "place")
APPEND = _script("append", "log", "place", "commit")
REWRITE = _script("rewrite", "log", "place", "commit")
CONTROL = _script("control")
FINISH = _script("finish", "log", "place")
RELEASE = _script("release", "log", "place")
PARK = _script("park", "log", "place")
UNPARK = _script("unpark", "log", "place")
READER = _script("reader", "log", "place")
REGISTER = _script("register")
SEEN = _script("seen")
RENEW = _script("renew")
DEREGISTER = _script("deregister", "log", "place", "workers")
GATEWAY = _script("gateway")
REAP = _script("reap", "log", "place", "workers")
EXPIRE = _script("expire")
CLOCK = _script("clock")
