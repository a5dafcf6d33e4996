-- Names and the time, for every script of a pool. KEYS[1] is "{p:POOL}sys"; every other key of the pool is derived from
-- it, so it has the same hash tag.
local P = string.sub(KEYS[1], 1, -4)
local CLASSES = { 'interactive', 'standard', 'bulk' }
local CANCEL, PARK, PREEMPT, MIGRATE = 1, 2, 4, 8

local NOW_US = clock_us(args.now_ms)
local NOW = math.floor(NOW_US / 1000)

local function key(kind, t, id)
  return P .. kind .. ':' .. t .. ':' .. id
end

local function member_of(t, id)
  return t .. ':' .. id
end

-- A member without a colon, which no script has written, is of a request that nobody knows.
local function split(member)
  local t, id = string.match(member, '^(.*):([^:]*)$')
  return t or '', id or member
end

-- A class of a record; the lowest where it has none of ours.
local function class_of(value)
  return (value == CLASSES[1] or value == CLASSES[2]) and value or CLASSES[3]
end

-- A cancelled or overdue request is found by the reaper at once, whatever its deadline was.
local function expire_now(member)
  call('ZADD', P .. 'deadlines', 'LT', int(NOW), member)
end

-- Where a request went that lives in another pool now, and by which order; nil of every other.
local function redirect(t, id)
  local status, dest, hop, ordered, seal =
    unpack(call('HMGET', key('req', t, id), 'status', 'dest', 'hop', 'ordered', 'seal'))
  if status ~= 'moved' then
    return nil
  end
  local order = { status = status, dest = dest or '', hop = whole_of(hop), ordered_ms = whole_of(ordered) }
  return order, seal or ''
end

-- A reply that says only where the request is. `status`: where it is no redirect; false for an unknown id.
local function status_reply(t, id, status)
  local order, seal = redirect(t, id)
  if order then
    return { cmsgpack.pack(order), seal }
  end
  return status and cmsgpack.pack({ status = status })
end

-- Sets a control flag, which is the truth, and wakes the worker that has the request. Replies all flags.
local function set_control(t, id, flag)
  local req = key('req', t, id)
  local status, control, worker = unpack(call('HMGET', req, 'status', 'control', 'worker'))
  local flags = bit.bor(number_of(control), flag)
  call('HSET', req, 'control', int(flags))
  if status == 'running' then
    call('SPUBLISH', P .. 'wk:' .. worker, cmsgpack.pack({ t, id, flags }))
  end
  return flags
end
