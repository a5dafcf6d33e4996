#!lua flags=allow-oom
-- tenant(now, t, weight, slots max or '', tokens max or ''): its share and its caps from now on.
local t = ARGV[2]
local tenant = P .. 'ten:' .. t
call('HSET', tenant, 'weight', ARGV[3])
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
