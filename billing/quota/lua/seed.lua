#!lua
--: args: now_ms:int, anew:bool, untrue_seq:int, last_seq:int, counts:[SeededCount]
--: reply: bool
--: SeededCount: key:str, spent:str, line_seq:int, untrue_seed:int, window_end_ms:int, window:str
-- Write what the books say was spent, where nothing is known or, anew, where what is known is older. Several
-- may do so at once: the same amount is written, none is added. What is known as of a line that the books have not
-- reached (`untrue_seed`) is nobody's.
-- KEYS: posted (the tenant's sums), windows, moneys (the keys of money, by the end of their windows), keys of money
-- Replies 0 where lines have been booked since these amounts were read.
local now = clock(args.now_ms)
local newest = number_of(call('HGET', KEYS[1], 'line_seq'))
if args.untrue_seq > 0 and newest == args.untrue_seq then
  newest = args.last_seq
  call('HSET', KEYS[1], 'line_seq', int(newest))
end
for _, count in ipairs(args.counts) do
  if count.line_seq < newest then
    return 0
  end
end
local over = int(now - KEEP_MS)
for _, name in ipairs(call('ZRANGEBYSCORE', KEYS[3], '-inf', over)) do
  if string.find(name, '^money[:~]') then
    call('DEL', P .. name)
  end
end
call('ZREMRANGEBYSCORE', KEYS[2], '-inf', over)
call('ZREMRANGEBYSCORE', KEYS[3], '-inf', over)
for _, count in ipairs(args.counts) do
  local key, seed = P .. count.key, count.line_seq
  local known = whole_of(call('HGET', key, 'seed'))
  local is_untrue = known == count.untrue_seed and known > 0
  if not known or is_untrue or (args.anew and known <= seed) then
    call('HSET', key, 'posted', count.spent, 'seed', seed)
    call('PEXPIREAT', key, int(count.window_end_ms + KEEP_MS))
    call('ZADD', KEYS[2], count.window_end_ms, count.window)
    call('ZADD', KEYS[3], count.window_end_ms, count.key)
  end
end
return 1
