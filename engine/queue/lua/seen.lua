#!lua flags=allow-oom
--: args: now_ms:int, fingerprint:str
--: reply: bool
-- A worker that can run it is starting.
call('HSET', KEYS[1], 'seen:' .. args.fingerprint, int(NOW))
return 1
