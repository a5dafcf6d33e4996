#!lua flags=allow-oom
--: args: now_ms:int, tenant:str, id:str
--: reply: status:str, dest:str, hop:int?, ordered_ms:int?, seal:bytes
-- Back in line at its old place. Replies the status it had.
local t, id = args.tenant, args.id
local moved = redirect(t, id)
local status = moved and moved.status or unpark(t, id)
publish()
return status_reply(t, id, status)
