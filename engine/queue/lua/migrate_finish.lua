#!lua flags=allow-oom
-- migrate_finish(now, t, id, hop, control known there, keep s, log keep s): it is in the other pool, whose name stays
-- here for a while. Its readers are told where to read on. Replies -1 once that is so; control flags that came
-- meanwhile and have to be known there first.
local t, id, hop, known = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local req, member = key('req', t, id), member_of(t, id)
local status, here, control, dest, head = unpack(call('HMGET', req, 'status', 'hop', 'control', 'dest', 'o'))
if status ~= 'moving' or number_of(here) ~= hop then
  return -1
elseif bit.band(number_of(control), CANCEL) ~= bit.band(known, CANCEL) then
  return number_of(control)
end
call('HSET', req, 'status', 'moved')
call('DEL', key('in', t, id), key('tok', t, id))
call('ZREM', P .. 'moving', member)
tell(t, id, tonumber(head), {}, dest)
drop_readers(t, id)
call('EXPIRE', req, ARGV[6])
call('EXPIRE', key('log', t, id), ARGV[7])
publish()
return -1
