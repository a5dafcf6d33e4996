#!lua flags=allow-oom
--: args: now_ms:int, tenant:str, weight:float, slots_max:int?, tokens_max:int?, highest:str, reserve_tokens:int,
--:   reserves_max:int
--: reply: bool
-- Its share, its caps and its reserve from now on. Replies 0 where the pool has as many tenants with a reserve as it
-- may.
local t = args.tenant
local tenant, reserves, reserve = P .. 'ten:' .. t, P .. 'reserves', args.reserve_tokens
if reserve > 0 and call('HEXISTS', reserves, t) == 0 and call('HLEN', reserves) >= args.reserves_max then
  return 0
end
call('HSET', tenant, 'weight', args.weight, 'highest', args.highest)
if reserve > 0 then
  call('HSET', reserves, t, int(reserve))
else
  call('HDEL', reserves, t)
end
for _, field in ipairs({ 'slots_max', 'tokens_max' }) do
  if args[field] then
    call('HSET', tenant, field, args[field])
  else
    call('HDEL', tenant, field)
  end
end
block_at_cap(t)
unblock(t)
return 1
