#!lua flags=allow-oom
-- tenant(now, t, weight, slots max or '', tokens max or '', highest class, reserved tokens, reserves max): its share,
-- its caps and its reserve from now on. Replies 0 where the pool has as many tenants with a reserve as it may.
local t = ARGV[2]
local tenant, reserves, reserve = P .. 'ten:' .. t, P .. 'reserves', tonumber(ARGV[7])
if reserve > 0 and call('HEXISTS', reserves, t) == 0 and call('HLEN', reserves) >= tonumber(ARGV[8]) then
  return 0
end
call('HSET', tenant, 'weight', ARGV[3], 'highest', ARGV[6])
if reserve > 0 then
  call('HSET', reserves, t, int(reserve))
else
  call('HDEL', reserves, t)
end
for position, field in ipairs({ 'slots_max', 'tokens_max' }) do
  local cap = ARGV[3 + position]
  if cap == '' then
    call('HDEL', tenant, field)
  else
    call('HSET', tenant, field, cap)
  end
end
block_at_cap(t)
unblock(t)
return 1
