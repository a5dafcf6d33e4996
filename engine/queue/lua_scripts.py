"""The pool's Lua scripts, each with the prelude it needs. Every key they touch has the pool's hash tag."""

from pathlib import Path

from core.scripts import Script

FOLDER = Path(__file__).parent / "lua"


def _script(name: str, *prelude: str) -> Script:
    return Script(FOLDER / f"{name}.lua", [FOLDER / "prelude" / f"{part}.lua" for part in ("base", *prelude)])


ENQUEUE = _script("enqueue", "log", "fair", "restarts", "place")
CLAIM = _script("claim", "log", "fair", "restarts", "place", "scan", "preempt")
APPEND = _script("append", "log", "fair", "restarts", "place", "commit")
REWRITE = _script("rewrite", "log", "fair", "restarts", "place", "commit")
CONTROL = _script("control")
FINISH = _script("finish", "log", "fair", "restarts", "place")
RELEASE = _script("release", "log", "fair", "restarts", "place")
MOVE = _script("move", "log", "fair", "restarts", "place")
COPY = _script("copy", "log")
ADOPT = _script("adopt", "log", "fair", "restarts", "place")
MOVED = _script("moved", "log", "fair", "restarts", "place")
PARK = _script("park", "log", "fair", "restarts", "place")
UNPARK = _script("unpark", "log", "fair", "restarts", "place")
READER = _script("reader", "log", "fair", "restarts", "place")
REGISTER = _script("register", "sizes")
TENANT = _script("tenant", "fair")
RESERVE = _script("reserve")
SEEN = _script("seen")
RENEW = _script("renew")
DEREGISTER = _script("deregister", "log", "fair", "restarts", "place", "sizes", "workers")
GATEWAY = _script("gateway")
REAP = _script("reap", "log", "fair", "restarts", "place", "sizes", "workers")
EXPIRE = _script("expire")
BURY = _script("bury")
CLOCK = _script("clock")
ENDS = _script("ends", "restarts")
REPLAY = _script("replay", "restarts")
