#!lua flags=allow-oom
--: args: now_ms:int, budget:int, deaths_max:int, no_worker_ms:int, park_ms:int, moves:bool
--: reply: requeued:int, expired:[Raw], dead_readers:int, moves:[Raw], odd:int
-- Requeues the work of expired workers, drops the readers of expired gateways, lets the long parked finish as bulk,
-- cancels what nobody reads where its sender asked for that, and names the requests that somebody has to end, and the
-- moves that nobody has finished. Anyone may run it, at any time. `odd`: entries that could not be read.
local budget, deaths_max, no_worker_ms = args.budget, args.deaths_max, args.no_worker_ms
local OVERDUE_MS, SCAN, MOVE_RETRY_MS, LEASE_MS_MAX, ODD_RETRY_MS, READS_MAX = 2000, 64, 1000, 60000, 60000, 1000
local requeued, expired, named, dropped, moves, odd, reads_left = 0, {}, {}, 0, {}, 0, READS_MAX

local function first_due(name, until_, from)
  return call('ZRANGE', P .. name, '-inf', int(until_), 'BYSCORE', 'LIMIT', int(from), budget)
end

local function due(name, until_)
  local from = begin_of(name)
  local found = first_due(name, until_, from)
  read_on(name, from, #found == budget, budget)
  return found
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
    for _, name in
      ipairs(call('ZRANGE', leases, '(' .. int(NOW + LEASE_MS_MAX), '+inf', 'BYSCORE', 'LIMIT', 0, LEASES_MAX))
    do
      call('ZADD', leases, int(NOW + LEASE_MS_MAX), name)
    end
  end
end

-- Does one entry's part of a list. One that names no request is dropped; one that fails is put off, so that those
-- behind it have their turn: a worker may have made them up.
local function each(name, members, part)
  for _, member in ipairs(members) do
    local t, id = split(member)
    if t == '' then
      odd = odd + call('ZREM', P .. name, member)
    elseif not pcall(part, member, t, id) then
      odd = odd + 1
      call('ZADD', P .. name, 'XX', int(NOW + ODD_RETRY_MS), member)
    end
  end
end

local function dismiss_lost(name)
  if requeued < budget then
    requeued = requeued + dismiss(name, 'lost', budget - requeued, deaths_max)
  end
end

-- A running request is its worker's to end; one that is overdue has a worker that does not.
local function end_overdue(member, t, id)
  local status, control, deaths, deadline, crowd =
    unpack(call('HMGET', key('req', t, id), 'status', 'control', 'deaths', 'deadline', 'crowd'))
  deadline, deaths, crowd = number_of(deadline), number_of(deaths), number_of(crowd)
  local is_cancelled = bit.band(number_of(control), CANCEL) ~= 0
  if not status or status == 'ended' then
    call('ZREM', P .. 'deadlines', member)
  elseif status == 'running' and NOW > deadline + OVERDUE_MS then
    requeue(t, id, 'lost', nil, deaths_max)
    expire(t, id, 'deadline', '')
  elseif status == 'queued' or status == 'parked' then
    if is_cancelled then
      expire(t, id, 'cancelled', '')
    elseif is_poison(deaths, crowd, deaths_max) then
      expire(t, id, 'error', is_alone(deaths, crowd) and 'bad_request' or 'engine_lost')
    elseif NOW < deadline and is_alone(deaths, crowd) then
      expire(t, id, 'error', 'engine_lost')
    elseif NOW < deadline then
      call('ZADD', P .. 'deadlines', int(deadline), member)
    else
      expire(t, id, 'deadline', '')
    end
  elseif status ~= 'running' then
    call('ZREM', P .. 'deadlines', member) -- it is on its way to another pool, or its status is none of ours
  elseif NOW < deadline and not is_cancelled then
    call('ZADD', P .. 'deadlines', int(deadline), member)
  end
end

-- Nobody runs its model any more. One that is in line and has no record is taken out of it.
local function end_unserved(class)
  local name, is_full = 'age:' .. class, true
  local from = begin_of(name)
  local found = call('ZRANGE', P .. name, int(from), int(from + SCAN - 1), 'WITHSCORES')
  for at = 1, #found, 2 do
    local member = found[at]
    local t, id = split(member)
    local order, fingerprint = unpack(call('HMGET', key('req', t, id), 'order', 'fingerprint'))
    if not order then
      odd = odd + call('ZREM', P .. 'age:' .. class, member)
    elseif fraction_of(found[at + 1], 0) / 1000 > NOW - no_worker_ms then
      is_full = false
      break
    elseif number_of(call('HGET', KEYS[1], 'seen:' .. (fingerprint or ''))) <= NOW - no_worker_ms then
      expire(t, id, 'error', 'engine_lost')
    end
  end
  read_on(name, from, is_full and #found == 2 * SCAN, SCAN)
end

-- A gateway that is gone reads nothing. What it read beyond READS_MAX is for the next call.
local function drop_reads(gateway)
  local reads = P .. 'reads:' .. gateway
  if reads_left == 0 then
    return
  end
  for _, member in ipairs(call('SMEMBERS', reads)) do
    if reads_left == 0 then
      return
    end
    local t, id = split(member)
    reads_left, dropped = reads_left - 1, dropped + drop_reader(t, id, gateway)
    call('SREM', reads, member)
  end
  call('DEL', reads)
  call('ZREM', P .. 'gws', gateway)
end

-- Parked for so long, it counts as having no reader: those that stay stuck park it no more. One that waits for its
-- sender's time first is put off until then, so that it is in front of nobody.
local function resume(member, t, id)
  local status, noread = unpack(call('HMGET', key('req', t, id), 'status', 'noread'))
  if status ~= 'parked' then
    call('ZREM', P .. 'parked', member)
  elseif noread then
    left_alone(t, id)
    call('ZADD', P .. 'parked', 'XX', int(NOW + number_of(noread)), member)
  else
    unpark(t, id, 'bulk')
    call('HSET', key('req', t, id), 'given_up', '1')
  end
end

local function end_unread(member, t, id)
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
local function name_move(member, t, id)
  if call('HGET', key('req', t, id), 'status') == 'moving' then
    call('ZADD', P .. 'moving', int(NOW + MOVE_RETRY_MS), member)
    moves[#moves + 1] = { t, id }
  else
    call('ZREM', P .. 'moving', member)
  end
end

-- The same for leases, whose members are names.
local function each_lease(name, part)
  for _, member in ipairs(due(name, NOW)) do
    if not pcall(part, member) then
      odd = odd + 1
      call('ZADD', P .. name, 'XX', int(NOW + ODD_RETRY_MS), member)
    end
  end
end

notice_restart()
cut_leases()
odd = odd + recount_all()
each_lease('workers', dismiss_lost)
if next(left_without) then
  measure(left_without)
end
each('deadlines', due('deadlines', NOW), end_overdue)
for _, class in ipairs(CLASSES) do
  end_unserved(class)
end
each_lease('gws', drop_reads)
each('parked', first_due('parked', NOW - args.park_ms, 0), resume) -- none stays in front
each('unread', due('unread', NOW), end_unread)
if args.moves then
  each('moving', due('moving', NOW), name_move)
end
publish()
return cmsgpack.pack({ requeued = requeued, expired = expired, dead_readers = dropped, moves = moves, odd = odd })
