-- Names and the time, for every script of a pool. KEYS[1] is "{p:POOL}sys"; every other key of the pool is derived from
-- it, so it has the same hash tag. ARGV[1] is the time in ms, or 0 for the server's own.
local P = string.sub(KEYS[1], 1, -4)
local CLASSES = { 'interactive', 'standard', 'bulk' }
local CANCEL, PARK, PREEMPT, MIGRATE = 1, 2, 4, 8

local NOW_US = clock_us(ARGV[1])
local NOW = math.floor(NOW_US / 1000)

local function key(kind, t, id)
  return P .. kind .. ':' .. t .. ':' .. id
end

local function member_of(t, id)
  return t .. ':' .. id
end

local function split(member)
  return string.match(member, '^(.*):([^:]*)$')
end

local function number_of(value)
  return tonumber(value or 0)
end

-- A doomed request is found by the reaper at once, whatever its deadline was.
local function doom(member)
  call('ZADD', P .. 'deadlines', 'LT', int(NOW), member)
end

-- {'moved', pool, hop, ordered, seal} of a request that lives in another pool now; nil of every other.
local function redirect(t, id)
  local found = call('HMGET', key('req', t, id), 'status', 'dest', 'hop', 'ordered', 'seal')
  return found[1] == 'moved' and found or nil
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
