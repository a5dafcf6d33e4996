#!lua
--: args: now_ms:int, connection:str, replaces:str, lease_ms:int, most:[int]
--: reply: int
-- Count a connection of a key against the key's limit, and of one user of it against the user's, over all
-- gateways. A lease keeps its place in both; asked again, it has the place that it has.
-- KEYS: the key's connections, the user's?
-- Replies 0, or which of KEYS has as many as it may.
local now = clock(args.now_ms)
for at = 1, #KEYS do
  call('ZREMRANGEBYSCORE', KEYS[at], '-inf', int(now))
  call('ZREM', KEYS[at], args.connection, args.replaces)
end
for at = #KEYS, 1, -1 do
  if call('ZCARD', KEYS[at]) >= args.most[at] then
    return at
  end
end
for at = 1, #KEYS do
  call('ZADD', KEYS[at], int(now + args.lease_ms), args.connection)
  call('PEXPIRE', KEYS[at], args.lease_ms)
end
return 0
