#!lua flags=allow-oom
--: args: now_ms:int, tenant:str, id:str, hop:int, control:int, keep_seconds:int, log_keep_seconds:int
--: reply: int
-- It is in the other pool, whose name stays here for a while. Its readers are told where to read on. Replies -1 once
-- that is so; control flags that came meanwhile and have to be known there first.
local t, id = args.tenant, args.id
local req, member = key('req', t, id), member_of(t, id)
local status, here, control, dest, head = unpack(call('HMGET', req, 'status', 'hop', 'control', 'dest', 'o'))
if status ~= 'moving' or number_of(here) ~= args.hop then
  return -1
elseif bit.band(number_of(control), CANCEL) ~= bit.band(args.control, CANCEL) then
  return number_of(control)
end
call('HSET', req, 'status', 'moved')
call('DEL', key('in', t, id), key('tok', t, id))
call('ZREM', P .. 'moving', member)
tell(t, id, number_of(head), {}, dest)
drop_readers(t, id)
call('EXPIRE', req, args.keep_seconds)
call('EXPIRE', key('log', t, id), args.log_keep_seconds)
publish()
return -1
