#!lua flags=allow-oom
--: args: now_ms:int, take:str, amount_nano:int, booked_ms_max:int
--: reply: bytes
-- Take money out of what a limit allows, before the books say so: only what nothing holds and no answer has used.
-- KEYS: a key of money
-- Replies -1 where it is taken, or nothing is counted; else how much could be. As text: Redis' integers are Lua's.
local now, amount = clock(args.now_ms), args.amount_nano
local money = read_money(string.sub(KEYS[1], #P + 1), now)
local take = TAKE .. args.take
if not money.seed or call('HEXISTS', KEYS[1], take) == 1 then
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
local till = now + args.booked_ms_max
-- stylua: ignore
call('HSET', KEYS[1], 'limit', int(limit), 'rev', int(math.max(money.rev, till)),
  take, string.format('%.0f:%.0f', amount, till))
return '-1'
