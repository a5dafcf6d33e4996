#!lua
-- Write what the books say was spent, where nothing is known or, anew, where what is known is older. Several
-- may do so at once: the same amount is written, none is added.
-- KEYS: posted (the tenant's sums), windows, moneys (the keys of money, by the end of their windows), keys of money
-- ARGV: now_ms or 0, anew, then for each key: its name behind the tag, spent, the last line that is in it, the
--       window's end, the window's name
-- Reply: "seeded", or "stale": lines have been booked since these amounts were read
local now, anew = clock(ARGV[1]), ARGV[2] == '1'
local newest = tonumber(call('HGET', KEYS[1], 'line_seq') or 0)
for at = 3, #ARGV, 5 do
  if tonumber(ARGV[at + 2]) < newest then
    return 'stale'
  end
end
local over = int(now - KEEP_MS)
for _, name in ipairs(call('ZRANGEBYSCORE', KEYS[3], '-inf', over)) do
  call('DEL', P .. name)
end
call('ZREMRANGEBYSCORE', KEYS[2], '-inf', over)
call('ZREMRANGEBYSCORE', KEYS[3], '-inf', over)
for at = 3, #ARGV, 5 do
  local key, seed, window_end = P .. ARGV[at], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local known = tonumber(call('HGET', key, 'seed') or nil)
  if not known or (anew and known <= seed) then
    call('HSET', key, 'posted', ARGV[at + 1], 'seed', ARGV[at + 2])
    call('PEXPIREAT', key, int(window_end + KEEP_MS))
    call('ZADD', KEYS[2], ARGV[at + 3], ARGV[at + 4])
    call('ZADD', KEYS[3], ARGV[at + 3], ARGV[at])
  end
end
return 'seeded'
