#!lua flags=allow-oom
--: args: now_ms:int, tenant:str, id:str
--: reply: status:str, dest:str, hop:int?, ordered_ms:int?, seal:bytes
-- Parks it, or asks its worker to. Replies the status it had.
local t, id = args.tenant, args.id
local moved = redirect(t, id)
local status = moved and moved.status or park(t, id)
publish()
return status_reply(t, id, status)
