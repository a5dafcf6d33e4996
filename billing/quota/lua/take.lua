#!lua flags=allow-oom
--: args: now_ms:int, amount_nano:int, booked_ms_max:int
--: reply: bytes
-- Take money out of what a limit allows, before the books say so: only what nothing holds and no answer has used.
-- KEYS: a key of money
-- Replies -1 where it is taken, or nothing is counted; else how much could be. As text: Redis' integers are Lua's.
local now, amount = clock(args.now_ms), args.amount_nano
local money = read_money(string.sub(KEYS[1], #P + 1))
if not money.seed then
  return '-1'
end
local rest = left(money, now)
if rest < amount then
  return int(math.max(0, rest))
end
local limit = money.limit - amount
if money.modular and limit < 0 then
  limit = limit + MODULUS
end
call('HSET', KEYS[1], 'limit', int(limit), 'rev', int(math.max(money.rev, now + args.booked_ms_max)))
return '-1'
