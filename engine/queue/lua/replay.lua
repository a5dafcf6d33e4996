#!lua flags=allow-oom
-- replay(now, {t, id, memory, at} of each as msgpack, then the event of each): ends of a journal that another memory
-- had.
-- Replies {memory, {code, at}...}: `open`, where the request is known and has not ended: its own end comes; `known`,
-- where the event is, or was until it was acknowledged; `put` back, and where.
local KEEP_SECONDS = 86400
local stream, replayed = P .. 'ended', P .. 'replayed'
local memory = memory_of_ends()
local reply = { memory }

local function holds(at, event)
  local found = at ~= '' and call('XRANGE', stream, at, at)[1]
  return found and found[2][2] == event
end

for position, item in ipairs(cmsgpack.unpack(ARGV[2])) do
  local t, id, at, event = item[1], item[2], item[4], ARGV[2 + position]
  local field = item[3] .. ' ' .. at .. ' ' .. member_of(t, id)
  local status, ended_at = unpack(call('HMGET', key('req', t, id), 'status', 'end_at'))
  local before = call('HGET', replayed, field)
  if before then
    reply[#reply + 1] = { 'known', before }
  elseif status and status ~= 'ended' then
    reply[#reply + 1] = { 'open', at }
  elseif (status and ended_at == at) or holds(at, event) then
    reply[#reply + 1] = { 'known', at }
  else
    local now_at = call('XADD', stream, '*', 'e', event)
    call('HSET', replayed, field, now_at)
    reply[#reply + 1] = { 'put', now_at }
  end
end
if call('EXISTS', replayed) == 1 then
  call('EXPIRE', replayed, KEEP_SECONDS)
end
return reply
