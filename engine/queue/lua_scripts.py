"""The pool's Lua scripts, each with the prelude it needs. Every key they touch has the pool's hash tag."""

from pathlib import Path

from core.scripts import Script

FOLDER = Path(__file__).parent / "lua"


def _script(name: str, *prelude: str) -> Script:
    return Script(FOLDER / f"{name}.lua", [FOLDER / "prelude" / f"{part}.lua" for part in ("base", *prelude)])


ENQUEUE = _script("enqueue", "log", "fair", "restarts", "states")
CLAIM = _script("claim", "log", "fair", "restarts", "states", "scan", "preempt")
APPEND = _script("append", "log", "fair", "restarts", "states", "commit")
REWRITE = _script("rewrite", "log", "fair", "restarts", "states", "commit")
CONTROL = _script("control")
FINISH = _script("finish", "log", "fair", "restarts", "states")
UNCLAIM = _script("unclaim", "log", "fair", "restarts", "states")
MIGRATE_BEGIN = _script("migrate_begin", "log", "fair", "restarts", "states")
MIGRATE_COPY = _script("migrate_copy", "log")
MIGRATE_ADOPT = _script("migrate_adopt", "log", "fair", "restarts", "states")
MIGRATE_FINISH = _script("migrate_finish", "log", "fair", "restarts", "states")
PARK = _script("park", "log", "fair", "restarts", "states")
UNPARK = _script("unpark", "log", "fair", "restarts", "states")
READER = _script("reader", "log", "fair", "restarts", "states")
REGISTER = _script("register", "sizes")
TENANT = _script("tenant", "fair")
SET_CLASS_RESERVE = _script("set_class_reserve")
SEEN = _script("seen")
RENEW = _script("renew")
DEREGISTER = _script("deregister", "log", "fair", "restarts", "states", "sizes", "workers")
GATEWAY = _script("gateway")
REAP = _script("reap", "log", "fair", "restarts", "states", "sizes", "workers")
EXPIRE = _script("expire")
REFUSE_LATE_ENQUEUE = _script("refuse_late_enqueue")
CLOCK = _script("clock")
ENDS = _script("ends", "restarts")
REPLAY = _script("replay", "restarts")
