-- What a pool's counts and lines say, held against what is there, by one reaper at a time: a worker may have written
-- any of them. What a count has too much would keep a tenant at its cap for ever, and what nobody waits for in a line
-- would keep others out of it.
local RECOUNT_MS, TENANTS_LOOKED_AT, RUNS_LOOKED_AT, LINE_LOOKED_AT = 5000, 50, 1000, 1000
local runs_left = RUNS_LOOKED_AT

-- Where a list has more than one call reads, the next one reads on behind those: entries that stay, since they can
-- neither be ended nor put away, keep none behind them waiting.
local function begin_of(name)
  return math.max(0, number_of(call('HGET', KEYS[1], 'from:' .. name)))
end

local function read_on(name, from, is_full, read)
  if is_full then
    call('HSET', KEYS[1], 'from:' .. name, int(from + read))
  elseif from > 0 then
    call('HDEL', KEYS[1], 'from:' .. name)
  end
end

-- The tokens that a request holds which a registered worker has; nil of any other.
local function held_here(t, id)
  local status, worker, held = unpack(call('HMGET', key('req', t, id), 'status', 'worker', 'held'))
  if
    status == 'running'
    and call('SISMEMBER', P .. 'claims:' .. (worker or ''), member_of(t, id)) == 1
    and call('ZSCORE', P .. 'workers', worker)
  then
    return math.max(0, number_of(held))
  end
end

-- A tenant's tokens in flight, of what runs. Where that is more than one look reads, what does not run goes, and the
-- count waits for the next one.
local function recount(t)
  local run, tokens = P .. 'run:' .. t, 0
  for _, id in ipairs(call('SMEMBERS', run)) do
    if runs_left == 0 then
      return
    end
    runs_left = runs_left - 1
    local held = held_here(t, id)
    if held then
      tokens = tokens + held
    else
      call('SREM', run, id)
    end
  end
  call('HSET', P .. 'ten:' .. t, 'tokens', int(tokens))
  unblock(t)
end

-- One that has nothing in line, or no cap, is not blocked.
local function look_at_tenant(t, class)
  if call('EXISTS', P .. 'ids:' .. class .. ':' .. t, P .. 'big:' .. class .. ':' .. t) == 0 then
    call('SREM', P .. 'blocked:' .. class, t)
  elseif
    call('HEXISTS', P .. 'ten:' .. t, 'tokens_max') == 1 or call('HEXISTS', P .. 'ten:' .. t, 'slots_max') == 1
  then
    recount(t)
  else
    unblock(t)
  end
end

local function look_at_tenants(class)
  local blocked, active, line = call('SMEMBERS', P .. 'blocked:' .. class), 'act:' .. class, 'blocked:' .. class
  local from = begin_of(line)
  from = from < #blocked and from or 0
  for at = from + 1, math.min(#blocked, from + TENANTS_LOOKED_AT) do
    look_at_tenant(blocked[at], class)
  end
  read_on(line, from, from + TENANTS_LOOKED_AT < #blocked, TENANTS_LOOKED_AT)
  from = begin_of(active)
  local found = call('ZRANGE', P .. active, int(from), int(from + TENANTS_LOOKED_AT - 1))
  for _, t in ipairs(found) do
    look_at_tenant(t, class)
  end
  read_on(active, from, #found == TENANTS_LOOKED_AT, TENANTS_LOOKED_AT)
end

-- Replies how many stood in line for whom there is no request that waits.
local function look_at_line(class)
  local name, gone = 'line:' .. class, 0
  local from = begin_of(name)
  local found = call('ZRANGE', P .. 'age:' .. class, int(from), int(from + LINE_LOOKED_AT - 1))
  for _, member in ipairs(found) do
    local t, id = split(member)
    if call('HGET', key('req', t, id), 'status') ~= 'queued' then
      gone = gone + call('ZREM', P .. 'age:' .. class, member)
      leave_line(t, id, class)
    end
  end
  read_on(name, from, #found == LINE_LOOKED_AT, LINE_LOOKED_AT - gone)
  return gone
end

local function recount_all()
  local last, gone = number_of(call('HGET', KEYS[1], 'recounted')), 0
  if last > NOW - RECOUNT_MS and last <= NOW then
    return 0
  end
  call('HSET', KEYS[1], 'recounted', int(NOW))
  for _, class in ipairs(CLASSES) do
    look_at_tenants(class)
    gone = gone + look_at_line(class)
  end
  return gone
end
