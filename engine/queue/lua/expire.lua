#!lua flags=allow-oom
--: args: now_ms:int, tenant:str, id:str, keep_seconds:int
--: reply: bool
-- How long an ended request's log and record are kept from now on. Replies 0 where it has not ended.
local req = key('req', args.tenant, args.id)
if call('HGET', req, 'status') ~= 'ended' then
  return 0
end
call('EXPIRE', req, args.keep_seconds)
return call('EXPIRE', key('log', args.tenant, args.id), args.keep_seconds)
