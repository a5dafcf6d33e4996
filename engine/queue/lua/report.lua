#!lua flags=allow-oom
-- report(now, supervisor, report or '', lease ms): what a supervisor says of its workers, for as long as its lease.
-- An empty report takes it out.
local name, report, lease = ARGV[2], ARGV[3], tonumber(ARGV[4])
local supervisors, key_ = P .. 'supervisors', P .. 'supervisor:' .. name
call('ZREMRANGEBYSCORE', supervisors, '-inf', int(NOW))
if report == '' then
  call('ZREM', supervisors, name)
  call('DEL', key_)
else
  call('ZADD', supervisors, int(NOW + lease), name)
  call('SET', key_, report, 'PX', int(lease))
end
return 1
