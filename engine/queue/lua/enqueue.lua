#!lua
-- enqueue(now, t, id, body hash, input, class, fingerprint, prompt tokens, max tokens, deadline, accepted, granted,
-- model, gateway, no reader ms or '', control, then the limits, shaped): create or return. Replies {created, status,
-- epoch, head, position, wait ms}, or {refusal, number}; of a moved one also the pool.
local t, id, body_hash, class, fingerprint = ARGV[2], ARGV[3], ARGV[4], ARGV[6], ARGV[7]
local prompt, max_tokens, deadline = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local gateway = ARGV[14]
local queue_max, tenant_max, memory_max = tonumber(ARGV[17]), tonumber(ARGV[18]), tonumber(ARGV[19])
local readers_max, gateway_lease, unread_max = tonumber(ARGV[20]), tonumber(ARGV[21]), tonumber(ARGV[22])
local no_worker_ms, NO_WORKER_RETRY_MS = tonumber(ARGV[23]), 5000
local req, total = key('req', t, id), 0

local function follow()
  local readers = key('rd', t, id)
  if gateway == '' or call('HLEN', readers) >= readers_max then
    return
  end
  call('HSETNX', readers, gateway, 'reading')
  call('SADD', P .. 'reads:' .. gateway, member_of(t, id))
  call('ZADD', P .. 'gws', 'NX', int(NOW + gateway_lease), gateway)
end

-- A tenant's own highest class bounds what its requests ask for.
local function clamped(asked)
  local highest = call('HGET', P .. 'ten:' .. t, 'highest') or CLASSES[1]
  for _, name in ipairs(CLASSES) do
    if name == highest then
      return asked
    elseif name == asked then
      return highest
    end
  end
end

-- What is served before: all of the higher classes, the tenant's own requests, and of the others what is their share of
-- that time.
local function ahead_of(order)
  local ahead, line = 0, class .. ':' .. t
  for _, higher in ipairs(CLASSES) do
    if higher == class then
      break
    end
    ahead = ahead + call('ZCARD', P .. 'age:' .. higher)
  end
  local ids, big, active = P .. 'ids:' .. line, P .. 'big:' .. line, P .. 'act:' .. class
  local own = call('ZCOUNT', ids, '-inf', '(' .. order) + call('ZCOUNT', big, '-inf', '(' .. order)
  local others = call('ZCARD', P .. 'age:' .. class) - call('ZCARD', ids) - call('ZCARD', big)
  local tenants = call('ZCARD', active) - (call('ZSCORE', active, t) and 1 or 0)
  local weight = tonumber(call('HGET', P .. 'ten:' .. t, 'weight') or 1)
  return ahead + own + math.min(others, math.ceil((own + 1) * tenants / weight))
end

-- Predicted from the pace at which a full pool has been taking requests lately.
local function wait_for(ahead)
  return math.floor(ahead * number_of(call('HGET', KEYS[1], 'pace')))
end

local function known()
  local status, hash, epoch, head, order = unpack(call('HMGET', req, 'status', 'body_hash', 'epoch', 'o', 'order'))
  if not status then
    return nil
  end
  if hash ~= body_hash then
    return { 'id_conflict', 0 }
  end
  local ahead = status == 'queued' and ahead_of(order) or 0
  if status ~= 'ended' and status ~= 'moved' then
    follow()
  end
  return { 0, status, tonumber(epoch), tonumber(head), ahead, wait_for(ahead), (redirect(t, id) or {})[2] }
end

local function memory_is_short()
  local info = call('INFO', 'memory')
  local limit = tonumber(string.match(info, 'maxmemory:(%d+)'))
  return limit > 0 and tonumber(string.match(info, 'used_memory:(%d+)')) > limit * memory_max
end

-- What neither the largest worker nor the tenant's cap could ever hold would wait for ever.
local function too_large()
  local size = tonumber(call('HGET', KEYS[1], 'size:' .. fingerprint) or math.huge)
  local cap = tonumber(call('HGET', P .. 'ten:' .. t, 'tokens_max') or math.huge)
  local most = math.min(size, cap)
  return prompt + max_tokens > most and { 'rejected_too_large', most }
end

local function refusal()
  local of_tenant = 0
  for _, name in ipairs(CLASSES) do
    total = total + call('ZCARD', P .. 'age:' .. name)
    local line = name .. ':' .. t
    of_tenant = of_tenant + call('ZCARD', P .. 'ids:' .. line) + call('ZCARD', P .. 'big:' .. line)
  end
  local seen = call('HGET', KEYS[1], 'seen:' .. fingerprint)
  if seen and tonumber(seen) < NOW - no_worker_ms then
    return { 'rejected_no_worker', NO_WORKER_RETRY_MS }
  end
  if of_tenant >= tenant_max then
    -- When its own line will be one shorter: beside the others, it does not get every turn.
    return { 'rejected_tenant_cap', math.max(1000, wait_for(math.ceil(ahead_of('+inf') / of_tenant))) }
  end
  if total >= queue_max or call('XLEN', P .. 'ended') >= unread_max or memory_is_short() then
    return { 'rejected_capacity', math.max(1000, wait_for(math.ceil(total / 10))) }
  end
  local wait = wait_for(ahead_of('+inf'))
  if NOW + wait >= deadline then
    return { 'rejected_deadline', math.max(1000, NOW + wait - deadline) }
  end
end

-- Its admission was given back, because it did not come (refuse_late_enqueue.lua). What is sent again was accepted
-- later.
local function buried()
  local since = call('GET', key('grave', t, id))
  return since and tonumber(ARGV[11]) <= tonumber(since) and { 'rejected_buried', 1000 }
end

class = clamped(class)
local answer = known() or buried() or too_large() or refusal()
if answer then
  return answer
end

-- Strictly rising, so that first come is first served even within one microsecond.
local order = int(math.max(NOW_US, number_of(call('HGET', KEYS[1], 'order')) + 1))
call('HSET', KEYS[1], 'order', order)
if total == 0 then
  call('HSET', KEYS[1], 'busy', '0')
end
local size = number_of(call('HGET', KEYS[1], 'size:' .. fingerprint))
local lane = size > 0 and prompt + tonumber(ARGV[12]) > size / 4 and 'large' or 'normal'
-- What claim reads of each candidate comes first: small hashes are searched from their beginning.
-- stylua: ignore
call('HSET', req, 'status', 'queued', 'fingerprint', fingerprint, 'prompt', ARGV[8], 'n', 0, 'granted', ARGV[12],
  'deadline', ARGV[10], 'control', ARGV[16], 'deaths', 0, 'order', order, 'cn', 0, 'lane', lane, 'warm', '',
  'ck', '', 'o', 0, 'class', class, 'worker', '', 'raw', 0, 'visible', 0, 'epoch', 1, 'preempts', 0, 'held', 0,
  'accepted', ARGV[11], 'claimed', 0, 'first', 0, 'cached', 0, 'covered', 0, 'recomputed', 0, 'model', ARGV[13],
  'body_hash', body_hash)
if ARGV[15] ~= '' then
  call('HSET', req, 'noread', ARGV[15])
end
if ARGV[24] == '1' then
  call('HSET', req, 'shaped', '1')
end
call('SET', key('in', t, id), ARGV[5])
call('ZADD', P .. 'deadlines', ARGV[10], member_of(t, id))
if ARGV[16] ~= '0' then
  doom(member_of(t, id))
end
local ahead = ahead_of(order)
enter_line(t, id, class, order)
follow()
if gateway == '' then
  left_alone(t, id)
end
local head = log_event(t, id, 'queued')
publish()
return { 1, 'queued', 1, head, ahead, wait_for(ahead) }
