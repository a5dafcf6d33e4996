#!lua flags=allow-oom
-- expire(now, t, id, seconds): how long an ended request's log and record are kept from now on.
local req = key('req', ARGV[2], ARGV[3])
if call('HGET', req, 'status') ~= 'ended' then
  return 0
end
call('EXPIRE', req, ARGV[4])
return call('EXPIRE', key('log', ARGV[2], ARGV[3]), ARGV[4])
