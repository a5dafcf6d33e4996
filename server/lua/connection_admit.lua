#!lua
-- Count a connection of a key against the key's limit, over all gateways. A lease keeps its place.
-- KEYS: the key's connections   ARGV: now_ms or 0, connection, the one it replaces or '', most, lease_ms
-- Reply: 1, or 0 where the key has as many as it may.
local lease = tonumber(ARGV[5])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
redis.call('ZREM', KEYS[1], ARGV[3])
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[4]) then
  return 0
end
redis.call('ZADD', KEYS[1], string.format('%.0f', now + lease), ARGV[2])
redis.call('PEXPIRE', KEYS[1], lease)
return 1
