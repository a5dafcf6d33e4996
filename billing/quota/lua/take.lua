#!lua flags=allow-oom
-- Take money out of what a limit allows, before the books say so: only what nothing holds and no answer has used.
-- KEYS: a key of money   ARGV: now_ms or 0, amount, for how many ms no older limit goes in the new one's place
-- Reply: -1 where it is taken, or nothing is counted; else how much could be
local now, amount = clock(ARGV[1]), tonumber(ARGV[2])
local money = read_money(string.sub(KEYS[1], #P + 1))
if not money.seed then
  return '-1'
end
local rest = left(money, now)
if rest < amount then
  return int(math.max(0, rest))
end
local limit = money.limit - amount
if money.round and limit < 0 then
  limit = limit + CIRCLE
end
call('HSET', KEYS[1], 'limit', int(limit), 'rev', int(math.max(money.rev, now + tonumber(ARGV[3]))))
return '-1'
