#!lua
--: args: now_ms:int, tenant:str, id:str, body_hash:str, priority:str, fingerprint:str, prompt_tokens:int,
--:   max_tokens:int, deadline_ms:int, accepted_ms:int, granted:int, model:str, gateway:str?, no_reader_ms:int?,
--:   control:int, shaped:bool, policy:str?, told:str, requests_max:int, tenant_requests_max:int,
--:   memory_fraction_max:float, readers_max:int, gateway_lease_ms:int, ended_unread_max:int, no_worker_ms:int,
--:   input:bytes
--: reply: refusal:str, number:int, created:bool, status:str?, epoch:int, head:int, position:int, wait_ms:int,
--:   dest:str
-- Create or return. Replies where it is, or a refusal with its number; of a moved one also the pool.
local NO_WORKER_RETRY_MS, ROUTES_MS, PACE_MS_MAX = 5000, 2000, 60000 -- as claim.lua measures it
local t, id, class, fingerprint, gateway = args.tenant, args.id, args.priority, args.fingerprint, args.gateway
local prompt, deadline = args.prompt_tokens, args.deadline_ms
local req, total = key('req', t, id), 0

local function follow()
  local readers = key('rd', t, id)
  if not gateway or call('HLEN', readers) >= args.readers_max then
    return
  end
  call('HSETNX', readers, gateway, 'reading')
  call('SADD', P .. 'reads:' .. gateway, member_of(t, id))
  call('ZADD', P .. 'gws', 'NX', int(NOW + args.gateway_lease_ms), gateway)
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
  local weight = fraction_of(call('HGET', P .. 'ten:' .. t, 'weight'), 1)
  return ahead + own + math.min(others, math.ceil((own + 1) * tenants / weight))
end

-- Predicted from the pace at which a full pool has been taking requests lately.
local function wait_for(ahead)
  return math.floor(ahead * math.min(fraction_of(call('HGET', KEYS[1], 'pace'), 0), PACE_MS_MAX))
end

local function known()
  local status, hash, epoch, head, order = unpack(call('HMGET', req, 'status', 'body_hash', 'epoch', 'o', 'order'))
  if not status then
    return nil
  end
  if hash ~= args.body_hash then
    return { refusal = 'id_conflict', number = 0 }
  end
  local ahead = status == 'queued' and ahead_of(order) or 0
  if status ~= 'ended' and status ~= 'moved' then
    follow()
  end
  local moved = redirect(t, id)
  return {
    created = false,
    status = status,
    epoch = number_of(epoch),
    head = number_of(head),
    position = ahead,
    wait_ms = wait_for(ahead),
    dest = moved and moved.dest,
  }
end

local function memory_is_short()
  local info = call('INFO', 'memory')
  local limit = number_of(string.match(info, 'maxmemory:(%d+)'))
  return limit > 0 and number_of(string.match(info, 'used_memory:(%d+)')) > limit * args.memory_fraction_max
end

local function largest()
  return whole_of(call('HGET', KEYS[1], 'size:' .. fingerprint)) or math.huge
end

-- What neither the largest worker nor the tenant's cap could ever hold would wait for ever.
local function too_large()
  local size = largest()
  if prompt + args.max_tokens > size then -- a worker may have written that: those that are registered say it
    measure({ [fingerprint] = true })
    size = largest()
  end
  local cap = whole_of(call('HGET', P .. 'ten:' .. t, 'tokens_max')) or math.huge
  local most = math.min(size, cap)
  return prompt + args.max_tokens > most and { refusal = 'rejected_too_large', number = most }
end

local function refusal()
  local of_tenant = 0
  for _, name in ipairs(CLASSES) do
    total = total + call('ZCARD', P .. 'age:' .. name)
    local line = name .. ':' .. t
    of_tenant = of_tenant + call('ZCARD', P .. 'ids:' .. line) + call('ZCARD', P .. 'big:' .. line)
  end
  local seen = call('HGET', KEYS[1], 'seen:' .. fingerprint)
  if seen and number_of(seen) < NOW - args.no_worker_ms then
    return { refusal = 'rejected_no_worker', number = NO_WORKER_RETRY_MS }
  end
  if of_tenant >= args.tenant_requests_max then
    -- When its own line will be one shorter: beside the others, it does not get every turn.
    local turn = math.max(1000, wait_for(math.ceil(ahead_of('+inf') / of_tenant)))
    return { refusal = 'rejected_tenant_cap', number = turn }
  end
  if total >= args.requests_max or call('XLEN', P .. 'ended') >= args.ended_unread_max or memory_is_short() then
    return { refusal = 'rejected_capacity', number = math.max(1000, wait_for(math.ceil(total / 10))) }
  end
  local wait = wait_for(ahead_of('+inf'))
  if NOW + wait >= deadline then
    return { refusal = 'rejected_deadline', number = math.max(1000, NOW + wait - deadline) }
  end
end

-- Its admission was given back, because it did not come (refuse_late_enqueue.lua). What is sent again was accepted
-- later.
local function refused_late()
  local since = call('GET', key('grave', t, id))
  return since and args.accepted_ms <= number_of(since) and { refusal = 'rejected_buried', number = 1000 }
end

-- The pool is others'. Gateways read routes every two seconds.
local function kept_out()
  return is_stranger(t) and { refusal = 'rejected_stranger', number = ROUTES_MS }
end

-- Its worker would find no policy to filter its answer by: the caller stores it first.
local function without_policy()
  return args.policy and call('EXISTS', P .. 'policy:' .. args.policy) == 0 and { refusal = 'no_policy', number = 0 }
end

class = clamped(class)
local answer = known() or refused_late() or kept_out() or too_large() or refusal() or without_policy()
if answer then
  return cmsgpack.pack(answer)
end

-- Strictly rising, so that first come is first served even within one microsecond.
local order = int(math.max(NOW_US, number_of(call('HGET', KEYS[1], 'order')) + 1))
call('HSET', KEYS[1], 'order', order)
if total == 0 then
  call('HSET', KEYS[1], 'busy', '0')
end
local size = number_of(call('HGET', KEYS[1], 'size:' .. fingerprint))
local lane = size > 0 and prompt + args.granted > size / 4 and 'large' or 'normal'
local phases = with_phase(nil, int(args.accepted_ms), 'queued')
-- What claim reads of each candidate comes first: small hashes are searched from their beginning.
-- stylua: ignore
call('HSET', req, 'status', 'queued', 'fingerprint', fingerprint, 'prompt', prompt, 'n', 0,
  'granted', args.granted, 'deadline', deadline, 'control', args.control, 'deaths', 0, 'order', order, 'cn', 0,
  'lane', lane, 'warm', '', 'phases', phases, 'ck', '', 'o', 0, 'class', class, 'worker', '', 'raw', 0,
  'visible', 0, 'epoch', 1, 'preempts', 0, 'held', 0, 'accepted', args.accepted_ms, 'claimed', 0, 'first', 0,
  'cached', 0, 'covered', 0, 'recomputed', 0, 'model', args.model, 'body_hash', args.body_hash, 'told', args.told)
if args.no_reader_ms then
  call('HSET', req, 'noread', args.no_reader_ms)
end
if args.shaped then
  call('HSET', req, 'shaped', '1')
end
call('SET', key('in', t, id), args.input)
call('ZADD', P .. 'deadlines', deadline, member_of(t, id))
if args.control ~= 0 then
  expire_now(member_of(t, id))
end
local ahead = ahead_of(order)
enter_line(t, id, class, order)
follow()
if not gateway then
  left_alone(t, id)
end
local head = log_event(t, id, 'queued')
publish()
return cmsgpack.pack({
  created = true,
  status = 'queued',
  epoch = 1,
  head = head,
  position = ahead,
  wait_ms = wait_for(ahead),
})
