#!lua
-- Renew the leases of connections, those that lapsed too.
-- KEYS: the key's connections   ARGV: now_ms or 0, lease_ms, connection...
local now = tonumber(ARGV[1])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local ends = string.format('%.0f', now + tonumber(ARGV[2]))
for at = 3, #ARGV do
  redis.call('ZADD', KEYS[1], ends, ARGV[at])
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
