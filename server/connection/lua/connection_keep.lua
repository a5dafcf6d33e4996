#!lua
-- Renew the leases of connections, those that lapsed too.
-- KEYS: the key's connections   ARGV: now_ms or 0, lease_ms, connection...
local now = clock(ARGV[1])
local ends = int(now + tonumber(ARGV[2]))
for at = 3, #ARGV do
  call('ZADD', KEYS[1], ends, ARGV[at])
end
call('PEXPIRE', KEYS[1], ARGV[2])
return 1
