#!lua flags=allow-oom
-- Close a request with what it cost, once. The record stays a while, so that a second sending finds its end.
-- KEYS: rq, conc, posted (the tenant's sums)
-- ARGV: id, cost_nano, input tokens, output tokens, keep_ms
-- Reply: "settled", "dup", or "unknown" where the record is gone: it was settled longer than keep_ms ago
local state = redis.call('HGET', KEYS[1], 'state')
if not state then
  return 'unknown'
end
redis.call('ZREM', KEYS[2], ARGV[1])
if state == 'ended' then
  return 'dup'
end
redis.call('HSET', KEYS[1], 'state', 'ended', 'cost', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
-- The amounts stay text: HINCRBY counts in 64 bits, a Lua number only to 2^53.
redis.call('HINCRBY', KEYS[3], 'cost_nano', ARGV[2])
redis.call('HINCRBY', KEYS[3], 'input', ARGV[3])
redis.call('HINCRBY', KEYS[3], 'output', ARGV[4])
redis.call('HINCRBY', KEYS[3], 'requests', 1)
return 'settled'
