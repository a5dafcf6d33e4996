#!lua
-- The client has the newest resume token: the one before is good for a while only.
-- KEYS: session   ARGV: now_ms or 0, connection, grace_ms
local now = clock(ARGV[1])
local connection, before_until = unpack(call('HMGET', KEYS[1], 'connection', 'before_until'))
if connection == ARGV[2] and before_until == '0' then
  call('HSET', KEYS[1], 'before_until', int(now + tonumber(ARGV[3])))
end
return 1
