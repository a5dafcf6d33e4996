#!lua
--: args: now_ms:int, connection:str, grace_ms:int
--: reply: bool
-- The client has the newest resume token: the one before is good for a while only.
-- KEYS: session
local now = clock(args.now_ms)
local connection, before_until = unpack(call('HMGET', KEYS[1], 'connection', 'before_until'))
if connection == args.connection and before_until == '0' then
  call('HSET', KEYS[1], 'before_until', int(now + args.grace_ms))
end
return 1
