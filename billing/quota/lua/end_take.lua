#!lua flags=allow-oom
--: args: now_ms:int, take:str, given_back:bool, older_ms:int
--: reply: bool
-- A take is booked, or given back: the limit may be pushed again, as it is read from now on. No admission brings a
-- limit that was read less than older_ms from now.
-- KEYS: a key of money
-- Replies 1 where the take was there.
local now, take = clock(args.now_ms), TAKE .. args.take
local value = call('HGET', KEYS[1], take)
if not value then
  return 0
end
local money = read_money(string.sub(KEYS[1], #P + 1), now)
if args.given_back and holds(value, now) then
  local limit = money.limit + number_of(string.match(value, '^(%d+)'))
  if money.modular and limit >= MODULUS then
    limit = limit - MODULUS
  end
  call('HSET', KEYS[1], 'limit', int(limit))
end
call('HDEL', KEYS[1], take)
call('HSET', KEYS[1], 'read', int(now))
if not is_being_taken(KEYS[1], now) then
  call('HSET', KEYS[1], 'rev', int(now + args.older_ms))
end
return 1
