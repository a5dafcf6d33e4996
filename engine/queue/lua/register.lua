#!lua flags=allow-oom
--: args: now_ms:int, worker:str, fingerprint:str, kv_tokens:int, lease_ms:int, info:bytes
--: reply: bool
-- A worker that can take work.
local name, fingerprint = args.worker, args.fingerprint
call('HSET', P .. 'worker:' .. name, 'fingerprint', fingerprint, 'size', args.kv_tokens, 'info', args.info)
call('HSETNX', P .. 'worker:' .. name, 'call', 0)
call('ZADD', P .. 'workers', int(NOW + args.lease_ms), name)
call('HSET', KEYS[1], 'seen:' .. fingerprint, int(NOW))
measure({ [fingerprint] = true })
return 1
