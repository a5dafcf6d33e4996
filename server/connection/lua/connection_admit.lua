#!lua
-- Count a connection of a key against the key's limit, and of one user of it against the user's, over all
-- gateways. A lease keeps its place in both; asked again, it has the place that it has.
-- KEYS: the key's connections, the user's?
-- ARGV: now_ms or 0, connection, the one it replaces or '', lease_ms, most of each of KEYS...
-- Reply: 0, or which of KEYS has as many as it may.
local now = clock(ARGV[1])
local lease = tonumber(ARGV[4])
for at = 1, #KEYS do
  call('ZREMRANGEBYSCORE', KEYS[at], '-inf', int(now))
  call('ZREM', KEYS[at], ARGV[2], ARGV[3])
end
for at = #KEYS, 1, -1 do
  if call('ZCARD', KEYS[at]) >= tonumber(ARGV[4 + at]) then
    return at
  end
end
for at = 1, #KEYS do
  call('ZADD', KEYS[at], int(now + lease), ARGV[2])
  call('PEXPIRE', KEYS[at], lease)
end
return 0
