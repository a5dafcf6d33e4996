#!lua flags=allow-oom
-- register(now, worker, fingerprint, size in KV tokens, info, lease ms): a worker that can take work.
local name, fingerprint, size = ARGV[2], ARGV[3], tonumber(ARGV[4])
call('HSET', P .. 'worker:' .. name, 'fingerprint', fingerprint, 'size', int(size), 'info', ARGV[5])
call('HSETNX', P .. 'worker:' .. name, 'call', 0)
call('ZADD', P .. 'workers', int(NOW + tonumber(ARGV[6])), name)
call('HSET', KEYS[1], 'seen:' .. fingerprint, int(NOW))
measure(fingerprint)
return 1
