#!lua flags=allow-oom
--: args: now_ms:int, tenant:str, id:str, flag:int, body_hash:str?
--: reply: status:str, dest:str, hop:int?, ordered_ms:int?, seal:bytes
-- Sets the flag and wakes the worker. Replies the status, nil for an unknown id, and one of another body.
local t, id, flag = args.tenant, args.id, args.flag
local status, hash = unpack(call('HMGET', key('req', t, id), 'status', 'body_hash'))
if args.body_hash and hash ~= args.body_hash then
  return nil
elseif not status or status == 'ended' or status == 'moved' then
  return status_reply(t, id, status)
elseif status == 'moving' and bit.band(flag, CANCEL) == 0 then
  return status_reply(t, id, status) -- it leaves its worker anyway
end
if bit.band(set_control(t, id, flag), CANCEL) ~= 0 and status ~= 'running' and status ~= 'moving' then
  -- The caller ends it next; if that caller dies, the reaper does.
  expire_now(member_of(t, id))
end
return status_reply(t, id, status)
