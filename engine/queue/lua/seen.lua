#!lua flags=allow-oom
-- seen(now, fingerprint): a worker that can run it is starting.
call('HSET', KEYS[1], 'seen:' .. ARGV[2], int(NOW))
return 1
