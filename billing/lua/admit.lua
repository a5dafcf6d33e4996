#!lua
-- Admit a request of one tenant, or return what it is bound to already. Writes nothing where it refuses.
-- KEYS: rq (directory record), cancel (a set of cancellers), conc (open requests by deadline)
-- ARGV: now_ms or 0, attempt, id, body hash, owner, pool, fingerprint, prices, project, key, user, model,
--       input tokens, chunk tokens, granted tokens, deadline_ms, grace_ms
-- Reply: {"ok", dup, pool, fingerprint, prices, cancelled, granted, state} or {"conflict"}
local now = tonumber(ARGV[1])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local function bound(dup)
  local record = redis.call('HMGET', KEYS[1], 'pool', 'fp', 'prices', 'cancelled', 'granted', 'state')
  return {'ok', dup, record[1], record[2], record[3], tonumber(record[4]), tonumber(record[5]), record[6]}
end

local known = redis.call('HMGET', KEYS[1], 'state', 'hash', 'owner', 'attempt')
if known[1] and known[1] ~= 'released' then
  if known[2] ~= ARGV[4] or known[3] ~= ARGV[5] then
    return {'conflict'}
  end
  -- The same attempt again is a retry of a call whose reply was lost, not a second sending.
  return bound(known[4] == ARGV[2] and 0 or 1)
end

-- Who may have cancelled it before it came: anyone's canceller, its key's, its user's.
local cancelled = 0
for _, canceller in ipairs({'*', 'k:' .. ARGV[9] .. ':' .. ARGV[10], 'u:' .. ARGV[9] .. ':' .. ARGV[11]}) do
  cancelled = math.max(cancelled, redis.call('SISMEMBER', KEYS[2], canceller))
end
redis.call('DEL', KEYS[2])
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1],
  'state', 'open', 'attempt', ARGV[2], 'hash', ARGV[4], 'owner', ARGV[5], 'pool', ARGV[6], 'fp', ARGV[7],
  'prices', ARGV[8], 'project', ARGV[9], 'key', ARGV[10], 'user', ARGV[11], 'model', ARGV[12],
  'input', ARGV[13], 'chunk', ARGV[14], 'granted', ARGV[15], 'deadline', ARGV[16],
  'admitted', string.format('%.0f', now), 'cancelled', cancelled)
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('(%.0f', now))
redis.call('ZADD', KEYS[3], string.format('%.0f', tonumber(ARGV[16]) + tonumber(ARGV[17])), ARGV[3])
return bound(0)
