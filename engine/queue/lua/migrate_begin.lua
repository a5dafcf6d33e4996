#!lua flags=allow-oom
--: args: now_ms:int, tenant:str, id:str, dest:str, hop:int, retry_ms:int, ordered_ms:int, seal:bytes
--: reply: status:str, dest:str
-- Takes a request out of its place here for another pool, as its `hop`th move. Nobody can append to it any more, and
-- its worker is told. Replies `moving` by this call or an earlier one, `moved` or `ended`, another status where it is
-- another move's turn; nil for an unknown id. Whoever asked copies it next; where that fails, the reaper names it after
-- the retry. `seal`: the word of who may order it (engine/queue/migration_orders.py).
local t, id = args.tenant, args.id
local req, member = key('req', t, id), member_of(t, id)
local status, class, dest, hop, order = unpack(call('HMGET', req, 'status', 'class', 'dest', 'hop', 'order'))
if not status then
  return nil
elseif number_of(hop) + 1 ~= args.hop or (status ~= 'queued' and status ~= 'running' and status ~= 'parked') then
  return cmsgpack.pack({ status = status, dest = dest or '' })
end
notice_restart()
if number_of(order) <= number_of(call('HGET', KEYS[1], 'restart_order')) then
  renew_epoch(t, id)
end
if status == 'running' then
  set_control(t, id, MIGRATE)
  take_back(t, id, 'moving', 'pool')
elseif status == 'queued' then
  leave_line(t, id, class)
else
  call('ZREM', P .. 'parked', member)
end
local due = call('ZSCORE', P .. 'deadlines', member) or call('HGET', req, 'deadline')
-- stylua: ignore
call('HSET', req, 'status', 'moving', 'dest', args.dest, 'hop', args.hop, 'due', int(number_of(due)),
  'ordered', args.ordered_ms, 'seal', args.seal, 'place', status == 'parked' and 'parked' or 'queued')
begin_phase(t, id, 'moved')
call('ZREM', P .. 'deadlines', member)
call('ZREM', P .. 'unread', member)
call('ZADD', P .. 'moving', int(NOW + args.retry_ms), member)
log_event(t, id, 'moved', '{"why":"pool"}')
publish()
return cmsgpack.pack({ status = 'moving', dest = args.dest })
