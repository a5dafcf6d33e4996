-- Names, numbers and time, for every script. KEYS[1] is "{p:POOL}sys"; every other key of the pool is derived from
-- it, so it has the same hash tag. ARGV[1] is the time in ms, or 0 for the server's own.
local call = redis.call
local P = string.sub(KEYS[1], 1, -4)
local CLASSES = { 'interactive', 'standard', 'bulk' }
local CANCEL, PARK, PREEMPT, MIGRATE = 1, 2, 4, 8

-- Lua's own tostring keeps 14 digits; times in microseconds have 16.
local function int(number)
  return string.format('%.0f', number)
end

local function clock_us()
  if ARGV[1] ~= '0' then
    return tonumber(ARGV[1]) * 1000
  end
  local time = call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local NOW_US = clock_us()
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
