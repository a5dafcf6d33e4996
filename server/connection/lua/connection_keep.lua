#!lua
-- Renew the leases of connections, those that lapsed too.
-- KEYS: the key's connections   ARGV: now_ms or 0, lease_ms, connection...
local ends = string.format('%.0f', now + tonumber(ARGV[2]))
for at = 3, #ARGV do
  redis.call('ZADD', KEYS[1], ends, ARGV[at])
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
