#!lua flags=allow-oom
-- control(now, t, id, flag): sets the flag and wakes the worker. Replies the status, nil for an unknown id.
local t, id, flag = ARGV[2], ARGV[3], tonumber(ARGV[4])
local req = key('req', t, id)
local status, control, worker = unpack(call('HMGET', req, 'status', 'control', 'worker'))
if not status or status == 'ended' or status == 'moved' then
  return status
end
local flags = bit.bor(number_of(control), flag)
call('HSET', req, 'control', int(flags))
if status == 'running' then
  call('SPUBLISH', P .. 'wk:' .. worker, cmsgpack.pack({ t, id, flags }))
elseif bit.band(flags, CANCEL) ~= 0 then
  -- The caller ends it next; if that caller dies, the reaper does.
  doom(member_of(t, id))
end
return status
