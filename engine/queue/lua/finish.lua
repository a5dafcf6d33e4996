#!lua flags=allow-oom
--: args: now_ms:int, tenant:str, id:str, log_keep_seconds:int, expected_o:int, entries:[(str,str,int,int,int,str)],
--:   event:bytes
--: reply: at:str, memory:str
-- The end of a request that nobody owns, or of one whose move nobody ordered. Replies its place in the stream, and in
-- which memory, where this end is in the log, by this call or by the call it repeats; else nil.
local t, id, expected, entries = args.tenant, args.id, args.expected_o, args.entries
local req, log = key('req', t, id), key('log', t, id)
local status, head = unpack(call('HMGET', req, 'status', 'o'))

local function is_repeated()
  if status ~= 'ended' or number_of(head) ~= expected + #entries then
    return false
  end
  local last = call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
  for at = 1, last and #last[2] or 0, 2 do
    if last[2][at] == 'v' then
      return last[2][at + 1] == entries[#entries][6]
    end
  end
  return false
end

local function reply(at)
  return cmsgpack.pack({ at = at, memory = memory_of_ends() })
end

local is_moving = status == 'moving'
if (status ~= 'queued' and status ~= 'parked' and not is_moving) or number_of(head) ~= expected then
  local at = is_repeated() and call('HGET', req, 'end_at')
  return is_entry_id(at) and reply(at) or nil
end
local at = add_end(args.event)
for position, entry in ipairs(entries) do
  put_entry(log, expected + position, entry)
end
call('HSET', req, 'o', int(expected + #entries))
tell(t, id, expected + #entries, entries)
if is_moving then
  call('ZREM', P .. 'moving', member_of(t, id))
end
finish(t, id, at, args.log_keep_seconds)
publish()
return reply(at)
