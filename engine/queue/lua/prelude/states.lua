-- Where a request is: in line, at a worker, parked, ended. It is in exactly one of these places.
local WARM_TOKENS_PER_SECOND = 10000 -- where its worker does not say how fast it is
local INFO_MAX = 65536 -- characters of what a worker says of itself
local WARM_MS_MAX = { interactive = 300, standard = 2000, bulk = 2000 }

-- Large requests have a lane of their own: one that does not fit holds up no smaller one. `why`: the phase that begins,
-- where none has begun yet.
local function enter_line(t, id, class, order, why)
  local lane = call('HGET', key('req', t, id), 'lane') == 'large' and 'big:' or 'ids:'
  class, order = class_of(class), int(number_of(order))
  call('ZADD', P .. lane .. class .. ':' .. t, order, id)
  call('ZADD', P .. 'age:' .. class, order, member_of(t, id))
  if why then
    begin_phase(t, id, why)
  end
  if enter_class(t, class) then
    begin_phase(t, id, 'cap')
  end
end

local function leave_line(t, id, class)
  class = class_of(class)
  local line = class .. ':' .. t
  local ids, big = P .. 'ids:' .. line, P .. 'big:' .. line
  if call('ZREM', ids, id) == 0 then
    call('ZREM', big, id)
  end
  call('ZREM', P .. 'age:' .. class, member_of(t, id))
  if call('EXISTS', ids, big) == 0 then
    call('ZREM', P .. 'act:' .. class, t)
    call('SREM', P .. 'blocked:' .. class, t)
  end
end

-- Poison. A request is fresh at its worker until it logs a token there. Engine deaths in a row without one count
-- (`deaths`), and `crowd` says how many fresh requests died together the last time. From the second death on it is a
-- suspect: a worker that takes one has at most half of that crowd fresh at a time, so that the next death tells more,
-- and one that died in a crowd of two is tried alone. Those that log a token are cleared. Only who dies alone is over.
local SUSPECT_DEATHS = 2

-- An engine that hangs is blamed on the requests of a shape that it held: their masks are what nothing interrupts. No
-- other gets a death for it. Each of them is tried alone next (two deaths in a crowd of none), at a worker that holds
-- nothing, until it logs a token; who was the only one of a shape at two hangs, or was there at HANGS_MAX, is over.
-- What finds no empty worker within ALONE_WAIT_MS ends, so that the sender can try again.
local HANGS_MAX, ALONE_WAIT_MS = 4, 30000

local function is_alone(deaths, crowd)
  return deaths >= SUSPECT_DEATHS and crowd == 0
end

local function share_of(deaths, crowd)
  return deaths < SUSPECT_DEATHS and math.huge or math.max(1, math.ceil(crowd / 2))
end

local function is_poison(deaths, crowd, deaths_max)
  return deaths >= deaths_max and crowd <= 1
end

local function try_out(t, id, worker, deaths)
  call('HSET', key('req', t, id), 'fresh', '1')
  call('SADD', P .. 'fresh:' .. worker, member_of(t, id))
  if deaths >= SUSPECT_DEATHS then
    call('SADD', P .. 'suspects:' .. worker, member_of(t, id))
  end
end

local function count_hang(t, id, shaped, deaths_max)
  local req = key('req', t, id)
  local hangs = call('HINCRBY', req, 'hangs', 1)
  local guilty = hangs >= HANGS_MAX or shaped == 1 and hangs > 1
  call('HSET', req, 'crowd', 0, 'deaths', guilty and int(math.max(deaths_max, SUSPECT_DEATHS)) or SUSPECT_DEATHS)
  call('ZADD', P .. 'deadlines', 'LT', int(NOW + (guilty and 0 or ALONE_WAIT_MS)), member_of(t, id))
end

local function clear_suspect(t, id, worker)
  call('HSET', key('req', t, id), 'fresh', '0')
  call('SREM', P .. 'fresh:' .. worker, member_of(t, id))
  call('SREM', P .. 'suspects:' .. worker, member_of(t, id))
end

local function leave_worker(t, id, worker)
  call('SREM', P .. 'run:' .. t, id)
  call('SREM', P .. 'claims:' .. worker, member_of(t, id))
  call('SREM', P .. 'bigs:' .. worker, member_of(t, id))
  clear_suspect(t, id, worker)
  drop_hold(t, id)
end

-- The worker that had it has its tokens in its cache: the others leave it alone for a moment, never longer than what
-- the prefill takes that this saves.
local function keep_warm(t, id, worker)
  local req, rate = key('req', t, id), WARM_TOKENS_PER_SECOND
  local info = call('HGET', P .. 'worker:' .. worker, 'info')
  if not info then
    return
  end
  local good, said = pcall(cjson.decode, #info <= INFO_MAX and info or '')
  rate = good and type(said) == 'table' and fraction_of(said.prefill_tokens_per_second, rate) or rate
  local class, prompt, n = unpack(call('HMGET', req, 'class', 'prompt', 'n'))
  local saved = math.floor((number_of(prompt) + number_of(n)) * 1000 / math.max(rate, 1))
  call('HSET', req, 'warm', worker, 'warm_until', int(NOW + math.min(saved, WARM_MS_MAX[class_of(class)])))
end

-- Takes a request from its worker: the claim token dies, its position in line stays. `rck` lets a retried release
-- see that it was done.
local function take_back(t, id, status, why)
  renew_epoch(t, id)
  local req = key('req', t, id)
  local ck, worker, control = unpack(call('HMGET', req, 'ck', 'worker', 'control'))
  worker = worker or ''
  leave_worker(t, id, worker)
  local kept = bit.band(number_of(control), CANCEL)
  call('HSET', req, 'status', status, 'ck', '', 'rck', ck or '', 'worker', '', 'control', int(kept), 'warm', '')
  if why == 'preempt' then
    keep_warm(t, id, worker)
  end
  if kept ~= 0 then
    expire_now(member_of(t, id))
  end
end

local REQUEUED = { lost = 'lost', preempt = 'preempt' } -- else its worker drains

-- `crowd`: with how many that had logged nothing yet it was when its engine died; nil where that is not why it comes
-- back.
local function requeue(t, id, why, crowd, deaths_max)
  local req = key('req', t, id)
  take_back(t, id, 'queued', why)
  if crowd then
    call('HSET', req, 'crowd', int(crowd))
    if is_poison(call('HINCRBY', req, 'deaths', 1), crowd, deaths_max) then
      expire_now(member_of(t, id))
    end
  end
  local class, order = unpack(call('HMGET', req, 'class', 'order'))
  enter_line(t, id, class, order, REQUEUED[why] or 'drain')
  log_event(t, id, 'moved', '{"why":"' .. why .. '"}')
end

local function park_waiting(t, id, why)
  call('HSET', key('req', t, id), 'status', 'parked')
  call('ZADD', P .. 'parked', int(NOW), member_of(t, id))
  begin_phase(t, id, why)
  log_event(t, id, 'parked')
end

-- Parks one in line, asks the worker of a running one. What is parked or over stays as it is.
local function park(t, id)
  local req = key('req', t, id)
  local status, class = unpack(call('HMGET', req, 'status', 'class'))
  if status == 'running' then
    set_control(t, id, PARK)
  elseif status == 'queued' then
    leave_line(t, id, class)
    park_waiting(t, id, 'parked')
  end
  return status
end

-- Nobody reads it any more, or only who is stuck: its sender may want it to end some time after that.
local function left_alone(t, id)
  local wait = call('HGET', key('req', t, id), 'noread')
  if wait then
    call('ZADD', P .. 'unread', 'NX', int(NOW + number_of(wait)), member_of(t, id))
  end
end

-- Drops one gateway as a reader. Replies 1 where it was one.
local function drop_reader(t, id, gateway)
  local dropped = call('HDEL', key('rd', t, id), gateway)
  if dropped == 1 and call('HLEN', key('rd', t, id)) == 0 then
    left_alone(t, id)
  end
  return dropped
end

-- Back in line at the old place; a running one is not asked to park any more. `class` moves it to another class.
local function unpark(t, id, class)
  local req = key('req', t, id)
  local status, old, order, control = unpack(call('HMGET', req, 'status', 'class', 'order', 'control'))
  if status == 'running' then
    call('HSET', req, 'control', int(bit.band(number_of(control), 255 - PARK)))
  elseif status == 'parked' then
    call('ZREM', P .. 'parked', member_of(t, id))
    call('ZREM', P .. 'unread', member_of(t, id))
    call('HSET', req, 'status', 'queued', 'class', class_of(class or old))
    enter_line(t, id, class or old, order, 'queued')
    log_event(t, id, 'resumed')
  end
  return status
end

local function drop_readers(t, id)
  for _, gateway in ipairs(readers_of(t, id)) do
    call('SREM', P .. 'reads:' .. gateway, member_of(t, id))
  end
  call('DEL', key('rd', t, id))
end

-- The end of a request, of which nothing is left but the log and the record, for `keep` seconds. The record keeps where
-- its usage event is in the stream (`at`), and whose claim it was: a retried append finds it.
local function finish(t, id, at, keep)
  local req, log = key('req', t, id), key('log', t, id)
  local class, worker, ck, phases, accepted = unpack(call('HMGET', req, 'class', 'worker', 'ck', 'phases', 'accepted'))
  -- stylua: ignore
  call('HSET', req, 'status', 'ended', 'ck', '', 'worker', '', 'end_at', at, 'end_ck', ck or '',
    'phases', with_phase(phases, accepted, 'ended'))
  call('DEL', key('tok', t, id), key('in', t, id))
  call('ZREM', P .. 'deadlines', member_of(t, id))
  call('ZREM', P .. 'unread', member_of(t, id))
  if worker and worker ~= '' then
    leave_worker(t, id, worker)
  else
    leave_line(t, id, class)
    call('ZREM', P .. 'parked', member_of(t, id))
  end
  drop_readers(t, id)
  call('EXPIRE', req, keep)
  call('EXPIRE', log, keep)
end
