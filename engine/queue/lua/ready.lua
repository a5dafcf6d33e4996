#!lua flags=allow-oom
--: args: now_ms:int, gap_ms_max:int, intervals_max:int, heartbeats:[ReadyTime]
--: reply: int
--: ReadyTime: worker:str, state:str, gpus:int, device:str, gpu_type:str
-- Heartbeats of a supervisor. Extends each worker's open interval of ready time in {p:POOL}ready, or opens one, or
-- closes it. Ready: it takes work (its lease runs and it is not draining), or drains and still has some. Time is cut at
-- full hours. An interval in which the server's clock went back waits until it is there again. Replies how many were
-- not kept.
local HOUR = 3600000
local intervals, open = P .. 'ready', P .. 'ready_open'
local refused = 0

local function alive(name)
  local lease = call('ZSCORE', P .. 'workers', name)
  return lease and number_of(lease) > NOW
end

local function store(name, from, to, busy, rest)
  call('HSET', intervals, int(from) .. ' ' .. name, int(to) .. ' ' .. int(busy) .. ' ' .. rest)
  call('HSET', open, name, int(from))
end

local function current(name)
  local from = call('HGET', open, name)
  local value = from and call('HGET', intervals, from .. ' ' .. name)
  if not value then
    return nil
  end
  local to, busy, rest = string.match(value, '^(%d+) (%d+) (.*)$')
  return number_of(from), number_of(to), number_of(busy), rest
end

local function extend(name, busy_now, rest)
  local from, to, busy, before = current(name)
  if from and NOW < to then
    return
  end
  if not from or NOW - to > args.gap_ms_max or before ~= rest then
    if call('HLEN', intervals) >= args.intervals_max then
      refused = refused + 1
    else
      store(name, NOW, NOW, 0, rest)
    end
    return
  end
  local hour = from - from % HOUR + HOUR
  if NOW > hour then
    store(name, from, hour, busy + (busy_now and hour - to or 0), rest)
    from, to, busy = hour, hour, 0
  end
  store(name, from, NOW, busy + (busy_now and NOW - to or 0), rest)
end

for _, beat in ipairs(args.heartbeats) do
  local name, state = beat.worker, beat.state
  local busy = call('SCARD', P .. 'claims:' .. name) > 0
  local draining = state == 'draining' or call('HGET', P .. 'worker:' .. name, 'state') == 'draining'
  local takes_work = state == 'ready' and not draining
  if (takes_work or (draining and busy)) and alive(name) then
    local stands = draining and 'draining' or 'ready'
    extend(name, busy, int(beat.gpus) .. ' ' .. stands .. ' ' .. beat.device .. ' ' .. beat.gpu_type)
  else
    call('HDEL', open, name)
  end
end
return refused
