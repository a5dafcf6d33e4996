-- In front of every script: Redis' commands, numbers and packed values as they are read, and the time. What stands in
-- Redis may be anybody's who writes there: no script reads it by `tonumber`, `redis.call` or an `unpack` of its own.
-- Before this stands what makes `args` of the arguments, by the script's own struct (core/redis/script_calls.py).
local pcall_redis, tonumber, type, find, format = redis.pcall, tonumber, type, string.find, string.format
local WHOLE_MAX = 9007199254740992 -- 2^53
local PACKED_MAX = 131072 -- bytes; each may be a list
local TEXT_MAX = 9223372036854774784 -- of what Redis holds in 64 bits

-- After a command that failed. A key of another type than ours holds nothing, and a field that cannot be added to is
-- none: it goes, the server's log says so, and the command is given again. A key is counted by its kind, in its slot,
-- for whoever sweeps there to tell (core/redis/dropped_keys.py): 64 kinds at most, a week. Nothing of that fails a
-- script, as not all that run one may write it. All in one function: each costs every run of every script.
local function call_anew(failed, ...)
  local command, key, field = ...
  if string.find(failed, 'WRONGTYPE', 1, true) then
    local tag, member = string.match(key, '^({p:[^}]*})req:(.*)$')
    for _, kind in ipairs(tag and { 'in:', 'tok:', 'log:', 'rd:' } or {}) do
      redis.call('DEL', tag .. kind .. member) -- no text outlives its record
    end
    redis.call('DEL', key)
    local slot, kind = string.match(key, '^({[^}]*})([%l_~]*)')
    local counts = (slot or '') .. 'dropped'
    local kinds = slot and pcall_redis('HLEN', counts)
    if type(kinds) == 'table' then
      pcall_redis('DEL', counts)
      kinds = 0
    end
    if kinds and kinds < 64 then
      pcall_redis('HINCRBY', counts, string.sub(kind, 1, 20), 1)
      pcall_redis('PEXPIRE', counts, 604800000)
    end
    redis.log(redis.LOG_WARNING, 'parley: a key of another type was dropped: ' .. string.sub(key, 1, 200))
  elseif command == 'HINCRBY' and string.find(failed, 'not an integer', 1, true) then
    redis.call('HDEL', key, field)
  elseif command == 'HINCRBY' and string.find(failed, 'would overflow', 1, true) then
    redis.call('HDEL', key, field)
  end
  return redis.call(...)
end

local function call(...)
  local reply = pcall_redis(...)
  if type(reply) == 'table' and reply.err then
    return call_anew(reply.err, ...)
  end
  return reply
end

-- A command on a key that this script has read or written before, and so knows the type of.
local call_again = redis.call

-- A whole number within 2^53, of its digits; nil of anything else (`tonumber` takes inf, nan, 0x10 and 1.5).
local function whole_of(text)
  local number = tonumber(text)
  if
    number
    and number % 1 == 0
    and number <= WHOLE_MAX
    and number >= -WHOLE_MAX
    and (text == '0' or text >= '1' or find(text, '^-?%d+$'))
  then
    return number
  end
end

-- The same, 0 where there is none.
local function number_of(value)
  return value and value ~= '0' and whole_of(value) or 0
end

-- A number with a fraction, from 0 to 2^53.
local function fraction_of(value, otherwise)
  local number = tonumber(value)
  return number and number >= 0 and number <= WHOLE_MAX and number or otherwise
end

-- A packed list or map; an empty one of what is none, or too long to be one of ours.
local function unpacked(value)
  if type(value) ~= 'string' or #value > PACKED_MAX then
    return {}
  end
  local good, found = pcall(cmsgpack.unpack, value)
  return good and type(found) == 'table' and found or {}
end

-- Lua's own tostring keeps 14 digits; times in microseconds have 16, amounts of money as many.
local function int(number)
  return format('%.0f', number >= -TEXT_MAX and number <= TEXT_MAX and number or 0)
end

-- Microseconds: of these ms, or the server's own where those are 0.
local function clock_us(ms)
  if ms ~= 0 then
    return ms * 1000
  end
  local time = call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- The same in ms.
local function clock(ms)
  return math.floor(clock_us(ms) / 1000)
end
