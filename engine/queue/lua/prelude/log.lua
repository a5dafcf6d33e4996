-- Writing log entries, and telling the gateways that follow. An entry is {k, x, p, r, i, v}; empty fields are not
-- stored, and kind "t" (text) is the default.
local GATEWAYS_MAX = 256 -- that read one request; more than any setting allows
local NEWS_MAX = 10000 -- of one call; hints may be lost
local news, news_count = {}, 0

local function write(log, o, entry)
  local fields = { 'XADD', log, int(o) .. '-0' }
  local function put(name, value)
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
  if entry[2] ~= '' then
    put('x', entry[2])
  end
  if entry[3] ~= 0 then
    put('p', int(entry[3]))
  end
  if entry[4] ~= 0 then
    put('r', int(entry[4]))
  end
  if entry[5] ~= 0 then
    put('i', int(entry[5]))
  end
  if entry[6] ~= '' then
    put('v', entry[6])
  end
  if entry[1] ~= 't' or #fields == 3 then
    put('k', entry[1])
  end
  call(unpack(fields))
end

local function last_offset(log)
  local last = call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
  return last and number_of(string.match(last[1], '^%d+')) or 0
end

-- The gateways that read a request. More than there can be are a worker's doing, and none of them reads.
local function readers_of(t, id)
  local readers = key('rd', t, id)
  return call('HLEN', readers) <= GATEWAYS_MAX and call('HKEYS', readers) or {}
end

-- Gathers what publish() sends: one message a gateway and call, however many requests it tells about. `dest`: the pool
-- in which the request is read from now on.
local function tell(t, id, head, entries, dest)
  local gateways = readers_of(t, id)
  local epoch = #gateways > 0 and number_of(call('HGET', key('req', t, id), 'epoch'))
  for _, gateway in ipairs(gateways) do
    news_count = news_count + 1
    if news_count > NEWS_MAX then
      break
    end
    local list = news[gateway]
    if not list then
      list = {}
      news[gateway] = list
    end
    list[#list + 1] = { t, id, head, entries, epoch, dest }
  end
end

local function publish()
  for gateway, list in pairs(news) do
    call('SPUBLISH', P .. 'gw:' .. gateway, cmsgpack.pack(list))
  end
end

-- False where the log has no such place. Raises every other error.
local function is_written(log, o, entry)
  local good, failed = pcall(write, log, o, entry)
  if good then
    return true
  end
  local why = tostring(type(failed) == 'table' and failed.err or failed)
  if not string.find(why, 'stream', 1, true) and not string.find(why, 'XADD', 1, true) then
    error(failed)
  end
  return false
end

-- An entry at its place. A log that a worker wrote so that it has no such place goes: its readers find that it is lost,
-- and the request goes on.
local function put_entry(log, o, entry)
  if not is_written(log, o, entry) then
    call('DEL', log)
    write(log, o, entry)
  end
end

-- One event by the queue itself, at the head. Where the record's head is none of the log's, the log has it; a log in
-- which nothing can be put any more goes, of which its readers are told.
local function log_event(t, id, kind, value)
  local req, log = key('req', t, id), key('log', t, id)
  local head = call('HINCRBY', req, 'o', 1)
  local entry = { kind, '', 0, 0, 0, value or '' }
  if not is_written(log, head, entry) then
    head = last_offset(log) + 1
    if not is_written(log, head, entry) then
      call('DEL', log)
      write(log, head, entry)
    end
    call('HSET', req, 'o', int(head))
  end
  tell(t, id, head, { entry })
  return head
end
