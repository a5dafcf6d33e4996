-- The stream of ends, which scripts add events to before they write anything of an end, as that may fail.

-- Whether a stored text is the id of an entry; a worker may have written it.
local function is_entry_id(at)
  return type(at) == 'string' and string.find(at, '^%d+%-%d+$') ~= nil
end

-- A stream takes nothing any more once it has had the last id that there is, which only a worker's own command gives
-- it. It begins anew with its events: what was read of it comes once more, and is booked once. It is another memory,
-- since ids begin anew, and it is counted as a key that was dropped.
local function begin_anew(stream)
  local entries = call('XRANGE', stream, '-', '+')
  call('DEL', stream)
  for _, entry in ipairs(entries) do
    for at = 1, #entry[2], 2 do
      if entry[2][at] == 'e' then
        call('XADD', stream, '*', 'e', entry[2][at + 1])
        break
      end
    end
  end
  local since = number_of(call('HGET', KEYS[1], 'ended_since'))
  call('HSET', KEYS[1], 'ended_since', int(math.max(NOW_US, since + 1)))
  pcall_redis('HINCRBY', P .. 'dropped', 'ended', 1)
  pcall_redis('PEXPIRE', P .. 'dropped', 604800000)
  redis.log(redis.LOG_WARNING, 'parley: a stream without ids was begun anew: ' .. stream)
end

-- Replies the event's place in the stream.
local function add_end(event)
  local stream = P .. 'ended'
  local at = pcall_redis('XADD', stream, '*', 'e', event)
  if type(at) ~= 'table' then
    return at
  elseif string.find(at.err, 'exhausted', 1, true) then
    begin_anew(stream)
  end
  return call('XADD', stream, '*', 'e', event)
end
