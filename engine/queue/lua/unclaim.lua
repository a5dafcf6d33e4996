#!lua flags=allow-oom
--: args: now_ms:int, tenant:str, id:str, ck:str, why:str, deaths_max:int
--: reply: bool
-- Back to its old position in line, or parked; why 'grant': it waits for a grant, and its worker unparks it. Replies 1
-- where it is released, by this call or by the call it repeats.
local t, id, ck, why, deaths_max = args.tenant, args.id, args.ck, args.why, args.deaths_max
local req = key('req', t, id)
local status, current, released, control = unpack(call('HMGET', req, 'status', 'ck', 'rck', 'control'))
if not status or ck == '' then
  return 0
elseif current ~= ck then
  return released == ck and 1 or 0
end
notice_restart()
if why == 'grant' or why == 'park' and bit.band(number_of(control), PARK) ~= 0 then
  take_back(t, id, 'parked')
  park_waiting(t, id, why == 'grant' and 'grant' or 'parked')
elseif why == 'park' then
  -- A reader caught up between the order to park and this release.
  requeue(t, id, 'preempt', nil, deaths_max)
elseif why == 'error' then
  requeue(t, id, 'lost', 1, deaths_max)
else
  if why == 'preempt' then
    call('HINCRBY', req, 'preempts', 1)
  end
  requeue(t, id, why, why == 'lost' and 1 or nil, deaths_max)
end
publish()
return 1
