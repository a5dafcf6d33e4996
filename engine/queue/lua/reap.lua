#!lua flags=allow-oom
--: args: now_ms:int, budget:int, deaths_max:int, no_worker_ms:int, park_ms:int, moves:bool
--: reply: requeued:int, expired:[Raw], dead_readers:int, moves:[Raw]
-- Requeues the work of expired workers, drops the readers of expired gateways, lets the long parked finish as bulk,
-- cancels what nobody reads where its sender asked for that, and names the requests that somebody has to end, and the
-- moves that nobody has finished. Anyone may run it, at any time.
local budget, deaths_max, no_worker_ms = args.budget, args.deaths_max, args.no_worker_ms
local OVERDUE_MS, SCAN, MOVE_RETRY_MS, LEASE_MS_MAX = 2000, 64, 1000, 60000
local requeued, expired, named, dropped, moves = 0, {}, {}, 0, {}

local function due(name, until_)
  return call('ZRANGE', P .. name, '-inf', int(until_), 'BYSCORE', 'LIMIT', 0, budget)
end

local function expire(t, id, reason, code)
  local member = member_of(t, id)
  if not named[member] then
    named[member] = true
    expired[#expired + 1] = { t, id, reason, code }
  end
end

-- Leases are short: one that ends so much later was given before the clock went back.
local function cut_leases()
  for _, leases in ipairs({ P .. 'workers', P .. 'gws' }) do
    for _, name in ipairs(call('ZRANGE', leases, '(' .. int(NOW + LEASE_MS_MAX), '+inf', 'BYSCORE')) do
      call('ZADD', leases, int(NOW + LEASE_MS_MAX), name)
    end
  end
end

notice_restart()
cut_leases()
for _, name in ipairs(due('workers', NOW)) do
  if requeued < budget then
    requeued = requeued + dismiss(name, 'lost', budget - requeued, deaths_max)
  end
end

-- A running request is its worker's to end; one that is overdue has a worker that does not.
for _, member in ipairs(due('deadlines', NOW)) do
  local t, id = split(member)
  local status, control, deaths, deadline, crowd =
    unpack(call('HMGET', key('req', t, id), 'status', 'control', 'deaths', 'deadline', 'crowd'))
  if not status or status == 'ended' then
    call('ZREM', P .. 'deadlines', member)
  elseif status == 'running' and NOW > tonumber(deadline) + OVERDUE_MS then
    requeue(t, id, 'lost', nil, deaths_max)
    expire(t, id, 'deadline', '')
  elseif status == 'queued' or status == 'parked' then
    if bit.band(tonumber(control), CANCEL) ~= 0 then
      expire(t, id, 'cancelled', '')
    elseif is_poison(tonumber(deaths), number_of(crowd), deaths_max) then
      expire(t, id, 'error', is_alone(tonumber(deaths), number_of(crowd)) and 'bad_request' or 'engine_lost')
    elseif NOW < tonumber(deadline) and is_alone(tonumber(deaths), number_of(crowd)) then
      expire(t, id, 'error', 'engine_lost')
    elseif NOW < tonumber(deadline) then
      call('ZADD', P .. 'deadlines', deadline, member)
    else
      expire(t, id, 'deadline', '')
    end
  elseif status == 'running' and NOW < tonumber(deadline) and bit.band(number_of(control), CANCEL) == 0 then
    call('ZADD', P .. 'deadlines', deadline, member)
  end
end

for _, class in ipairs(CLASSES) do
  for _, member in ipairs(call('ZRANGE', P .. 'age:' .. class, 0, SCAN - 1)) do
    local t, id = split(member)
    local order, fingerprint = unpack(call('HMGET', key('req', t, id), 'order', 'fingerprint'))
    if number_of(order) / 1000 > NOW - no_worker_ms then
      break
    end
    local seen = number_of(call('HGET', KEYS[1], 'seen:' .. (fingerprint or '')))
    if order and seen <= NOW - no_worker_ms then
      expire(t, id, 'error', 'engine_lost')
    end
  end
end

for _, gateway in ipairs(due('gws', NOW)) do
  for _, member in ipairs(call('SMEMBERS', P .. 'reads:' .. gateway)) do
    local t, id = split(member)
    dropped = dropped + drop_reader(t, id, gateway)
  end
  call('DEL', P .. 'reads:' .. gateway)
  call('ZREM', P .. 'gws', gateway)
end

-- Parked for so long, it counts as having no reader: those that stay stuck park it no more.
for _, member in ipairs(due('parked', NOW - args.park_ms)) do
  local t, id = split(member)
  if call('HEXISTS', key('req', t, id), 'noread') == 1 then
    left_alone(t, id)
  else
    unpark(t, id, 'bulk')
    call('HSET', key('req', t, id), 'given_up', '1')
  end
end

for _, member in ipairs(due('unread', NOW)) do
  local t, id = split(member)
  local status = call('HGET', key('req', t, id), 'status')
  local readers = call('HLEN', key('rd', t, id))
  local gone = not status or status == 'ended' or status == 'moving' or status == 'moved'
  if gone or (readers > 0 and status ~= 'parked') then
    call('ZREM', P .. 'unread', member)
  elseif status == 'running' then
    call('ZREM', P .. 'unread', member)
    set_control(t, id, CANCEL)
  else
    expire(t, id, readers > 0 and 'slow_reader' or 'cancelled', '')
  end
end

-- Who began to move these has had its time.
for _, member in ipairs(args.moves and due('moving', NOW) or {}) do
  local t, id = split(member)
  if call('HGET', key('req', t, id), 'status') == 'moving' then
    call('ZADD', P .. 'moving', int(NOW + MOVE_RETRY_MS), member)
    moves[#moves + 1] = { t, id }
  else
    call('ZREM', P .. 'moving', member)
  end
end
publish()
return cmsgpack.pack({ requeued = requeued, expired = expired, dead_readers = dropped, moves = moves })
