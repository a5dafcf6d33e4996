#!lua
--: args: now_ms:int, lease_ms:int, connections:[str]
--: reply: bool
-- Renew the leases of connections, those that lapsed too.
-- KEYS: the key's connections
local ends = int(clock(args.now_ms) + args.lease_ms)
for _, connection in ipairs(args.connections) do
  call('ZADD', KEYS[1], ends, connection)
end
call('PEXPIRE', KEYS[1], args.lease_ms)
return 1
