#!lua
--: args: now_ms:int, owner:str, number:int, connection:str, gateway:str, keep_ms:int
--: reply: number:int, connection:str, gateway:str
-- Take a session over with its resume token: newest connection wins, the token's number goes up by one.
-- KEYS: session, its open ids
-- Replies the new number, and who had the session before; nil where the token is not good (any more).
local now = clock(args.now_ms)
local owner, n, before_until, connection, gateway =
  unpack(call('HMGET', KEYS[1], 'owner', 'n', 'before_until', 'connection', 'gateway'))
if not owner or owner ~= args.owner then
  return nil
end
n = number_of(n)
local asked = args.number
-- The token before the newest stays good until the client has shown that it got the newest, and 30 s longer.
local before_good = asked == n - 1 and (before_until == '0' or now <= number_of(before_until))
if asked ~= n and not before_good then
  return nil
end
call('HSET', KEYS[1], 'n', n + 1, 'before_until', '0', 'connection', args.connection, 'gateway', args.gateway)
call('PEXPIRE', KEYS[1], args.keep_ms)
call('PEXPIRE', KEYS[2], args.keep_ms)
return cmsgpack.pack({ number = n + 1, connection = connection, gateway = gateway })
