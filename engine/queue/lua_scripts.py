"""The pool's Lua scripts, each with its argument and reply structs and its prelude. Every key they touch has
the pool's hash tag."""

from pathlib import Path
from typing import TypeVar

from core.redis.script_calls import ScriptCall
from core.redis.scripts import Script
from engine.queue import script_calls as calls
from engine.queue import script_replies as replies

FOLDER = Path(__file__).parent / "lua"
STATES = ("log", "fair", "restarts", "phases", "states")

Call = TypeVar("Call", bound=ScriptCall)
Reply = TypeVar("Reply")


def pool_script(name: str, call: type[Call], reply: type[Reply], *prelude: str) -> Script[Call, Reply]:
    """A script of engine/queue/lua, after the prelude of all pool scripts."""
    files = [FOLDER / "prelude" / f"{part}.lua" for part in ("base", *prelude)]
    return Script(FOLDER / f"{name}.lua", call, reply, files)


ENQUEUE = pool_script("enqueue", calls.EnqueueCall, replies.EnqueueReply, *STATES, "sizes", "strangers")
CLAIM = pool_script("claim", calls.ClaimCall, replies.ClaimsReply, *STATES, "scan", "preempt", "strangers")
APPEND = pool_script("append", calls.AppendCall, replies.AppendReply, *STATES, "ends", "commit")
REWRITE = pool_script("rewrite", calls.RewriteCall, replies.CommitReply, *STATES, "ends", "commit")
CONTROL = pool_script("control", calls.ControlCall, replies.StatusReply)
FINISH = pool_script("finish", calls.FinishCall, replies.EndReply, *STATES, "ends")
UNCLAIM = pool_script("unclaim", calls.UnclaimCall, bool, *STATES)
MIGRATE_BEGIN = pool_script("migrate_begin", calls.MigrateBeginCall, replies.MigrationReply, *STATES)
MIGRATE_COPY = pool_script("migrate_copy", calls.MigrateCopyCall, int, "log")
MIGRATE_ADOPT = pool_script("migrate_adopt", calls.MigrateAdoptCall, int, *STATES)
MIGRATE_FINISH = pool_script("migrate_finish", calls.MigrateFinishCall, int, *STATES)
PARK = pool_script("park", calls.RequestCall, replies.StatusReply, *STATES)
UNPARK = pool_script("unpark", calls.RequestCall, replies.StatusReply, *STATES)
READER = pool_script("reader", calls.ReaderCall, replies.ViewReply, *STATES)
REGISTER = pool_script("register", calls.RegisterCall, bool, "sizes")
TENANT = pool_script("tenant", calls.TenantCall, bool, "fair")
SET_CLASS_RESERVE = pool_script("set_class_reserve", calls.ReserveCall, bool)
ADMIT = pool_script("admit", calls.LetInCall, bool, "fair", "strangers")
SEEN = pool_script("seen", calls.SeenCall, bool)
RENEW = pool_script("renew", calls.RenewCall, replies.RenewReply)
DEREGISTER = pool_script("deregister", calls.DeregisterCall, int, *STATES, "sizes", "workers")
GATEWAY = pool_script("gateway", calls.GatewayCall, bool)
REAP = pool_script("reap", calls.ReapCall, replies.ReapReply, *STATES, "sizes", "workers", "recount")
EXPIRE = pool_script("expire", calls.ExpireCall, bool)
REFUSE_LATE_ENQUEUE = pool_script("refuse_late_enqueue", calls.RefuseLateEnqueueCall, replies.IdsReply)
CLOCK = pool_script("clock", calls.PoolCall, int)
ENDS = pool_script("ends", calls.PoolCall, replies.EndsReply, "restarts")
REPLAY = pool_script("replay", calls.ReplayCall, replies.ReplayReply, "restarts", "ends")
