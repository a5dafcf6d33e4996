#!lua flags=allow-oom
-- control(now, t, id, flag, body hash or ''): sets the flag and wakes the worker. Replies the status, nil for an
-- unknown id, and one of another body; where it lives in another pool {'moved', pool, hop, ordered, seal}.
local t, id, flag = ARGV[2], ARGV[3], tonumber(ARGV[4])
local status, hash = unpack(call('HMGET', key('req', t, id), 'status', 'body_hash'))
if ARGV[5] ~= '' and hash ~= ARGV[5] then
  return nil
elseif not status or status == 'ended' then
  return status
elseif status == 'moved' then
  return redirect(t, id)
elseif status == 'moving' and bit.band(flag, CANCEL) == 0 then
  return status -- it leaves its worker anyway
end
if bit.band(set_control(t, id, flag), CANCEL) ~= 0 and status ~= 'running' and status ~= 'moving' then
  -- The caller ends it next; if that caller dies, the reaper does.
  doom(member_of(t, id))
end
return status
