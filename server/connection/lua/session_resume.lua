#!lua
-- Take a session over with its resume token: newest connection wins, the token's number goes up by one.
-- KEYS: session, its open ids   ARGV: now_ms or 0, owner, token's number, connection, gateway, keep_ms
-- Reply: {new number, connection before, gateway before}, or {} where the token is not good (any more)
local now = clock(ARGV[1])
local owner, n, before_until, connection, gateway =
  unpack(call('HMGET', KEYS[1], 'owner', 'n', 'before_until', 'connection', 'gateway'))
if not owner or owner ~= ARGV[2] then
  return {}
end
n = tonumber(n)
local asked = tonumber(ARGV[3])
-- The token before the newest stays good until the client has shown that it got the newest, and 30 s longer.
local before_good = asked == n - 1 and (before_until == '0' or now <= tonumber(before_until))
if asked ~= n and not before_good then
  return {}
end
call('HSET', KEYS[1], 'n', n + 1, 'before_until', '0', 'connection', ARGV[4], 'gateway', ARGV[5])
call('PEXPIRE', KEYS[1], ARGV[6])
call('PEXPIRE', KEYS[2], ARGV[6])
return { n + 1, connection, gateway }
