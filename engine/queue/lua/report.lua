#!lua flags=allow-oom
--: args: now_ms:int, supervisor:str, lease_ms:int, report:bytes
--: reply: bool
-- What a supervisor says of its workers, for as long as its lease. An empty report takes it out.
local name = args.supervisor
local supervisors, key_ = P .. 'supervisors', P .. 'supervisor:' .. name
call('ZREMRANGEBYSCORE', supervisors, '-inf', int(NOW))
if args.report == '' then
  call('ZREM', supervisors, name)
  call('DEL', key_)
else
  call('ZADD', supervisors, int(NOW + args.lease_ms), name)
  call('SET', key_, args.report, 'PX', args.lease_ms)
end
return 1
