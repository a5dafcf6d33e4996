#!lua flags=allow-oom
--: args: now_ms:int, worker:str, step_age_ms:int, step_age_ms_max:int, lease_ms:int, kv_tokens:int, info:bytes
--: reply: alive:bool, control:[Raw]
-- Keeps the lease of a worker whose engine moves. Replies whether it was kept, and the flags of what it holds.
local CLAIMS_READ_MAX = 2000 -- more than an engine runs
local name = args.worker
local worker, moves = P .. 'worker:' .. name, args.step_age_ms < args.step_age_ms_max
local alive, flags = false, {}
if call('ZSCORE', P .. 'workers', name) and moves then
  alive = true
  call('ZADD', P .. 'workers', int(NOW + args.lease_ms), name)
  call('HSET', worker, 'info', args.info)
  if args.kv_tokens > 0 then
    call('HSET', worker, 'size', args.kv_tokens) -- another worker may have written it
  end
  call('HSET', KEYS[1], 'seen:' .. call('HGET', worker, 'fingerprint'), int(NOW))
end
if call('ZSCORE', P .. 'workers', name) then
  call('HSET', worker, 'hung', moves and '0' or '1')
end
for at, member in ipairs(call('SMEMBERS', P .. 'claims:' .. name)) do
  if at > CLAIMS_READ_MAX then
    break
  end
  local t, id = split(member)
  local control = number_of(call('HGET', key('req', t, id), 'control'))
  if control ~= 0 then
    flags[#flags + 1] = { t, id, control }
  end
end
return cmsgpack.pack({ alive = alive, control = flags })
