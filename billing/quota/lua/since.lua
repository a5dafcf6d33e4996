#!lua flags=allow-oom
--: args: now_ms:int
--: reply: server:str, since:bytes, began:bytes
-- Which server has a tenant's sums, and since when without a loss that took all of them.
-- KEYS: posted (the tenant's sums)
-- Replies the server's run id, since when, and when the first request was counted in the sums, "" where that is not
-- known: both as they are in Redis, in ms.
local now = clock(args.now_ms)
call('HSETNX', KEYS[1], 'since', int(now))
local server = string.match(call('INFO', 'server'), 'run_id:(%x+)')
local since, began = unpack(call('HMGET', KEYS[1], 'since', 'began'))
return { cmsgpack.pack({ server = server }), since, began or '' }
