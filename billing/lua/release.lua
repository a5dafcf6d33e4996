#!lua flags=allow-oom
-- Undo an admission that the queue refused. A later sending of the same id is admitted anew; until then the
-- record tells `settle` what to close, should another gateway have enqueued the same request after all.
-- KEYS: rq, conc   ARGV: id, keep_ms
-- Reply: 1 where it was open
if redis.call('HGET', KEYS[1], 'state') ~= 'open' then
  return 0
end
redis.call('HSET', KEYS[1], 'state', 'released')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('ZREM', KEYS[2], ARGV[1])
return 1
