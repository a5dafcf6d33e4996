#!lua flags=allow-oom
--: args: now_ms:int, ends:[ReplayedEnd], again:bool, events:[bytes]
--: reply: memory:str, outcomes:[(str,str)]
--: ReplayedEnd: tenant:str, id:str, memory:str, at:str
-- Ends of a journal that another memory had. Replies the memory, and of each {code, at}: `open`, where the request is
-- known and has not ended: its own end comes; `known`, where the event is, or was until it was acknowledged; `put`
-- back, and where. With `again` an event is known only where the stream has it: the books that had it are gone.
local KEEP_SECONDS = 86400
local stream, replayed = P .. 'ended', P .. 'replayed'
local outcomes = {}

local function holds(at, event)
  local found = at ~= '' and call('XRANGE', stream, at, at)[1]
  return found and found[2][2] == event
end

for position, item in ipairs(args.ends) do
  local t, id, at, event = item.tenant, item.id, item.at, args.events[position]
  local field = item.memory .. ' ' .. at .. ' ' .. member_of(t, id)
  local status, ended_at = unpack(call('HMGET', key('req', t, id), 'status', 'end_at'))
  local before = call('HGET', replayed, field)
  before = is_entry_id(before) and before
  if before and (not args.again or holds(before, event)) then
    outcomes[#outcomes + 1] = { 'known', before }
  elseif status and status ~= 'ended' then
    outcomes[#outcomes + 1] = { 'open', at }
  elseif (status and ended_at == at and not args.again) or holds(at, event) then
    outcomes[#outcomes + 1] = { 'known', at }
  else
    local now_at = add_end(event)
    call('HSET', replayed, field, now_at)
    outcomes[#outcomes + 1] = { 'put', now_at }
  end
end
if call('EXISTS', replayed) == 1 then
  call('EXPIRE', replayed, KEEP_SECONDS)
end
return cmsgpack.pack({ memory = memory_of_ends(), outcomes = outcomes })
