#!lua flags=allow-oom
--: args: now_ms:int, tenant:str, id:str, hop:int, head:int, input:bytes, tokens:bytes, fields:[bytes]
--: reply: int
-- The request is of this pool from now on, once for each hop, at its old position in line. Replies 1, 0 where it was
-- already, -1 where its log has not been copied up to its head.
local t, id, hop = args.tenant, args.id, args.hop
local req, log, member = key('req', t, id), key('log', t, id), member_of(t, id)
local status, here = unpack(call('HMGET', req, 'status', 'hop'))
if status and (status ~= 'moved' or number_of(here) >= hop) then -- what lives here is never replaced
  return 0
end
if last_offset(log) ~= args.head then
  return -1
end
call('DEL', req)
call('HSET', req, unpack(args.fields))
-- stylua: ignore
local class, order, place, due, control, prompt, n, granted, fingerprint = unpack(call('HMGET', req, 'class', 'order',
  'place', 'due', 'control', 'prompt', 'n', 'granted', 'fingerprint'))
local size = number_of(call('HGET', KEYS[1], 'size:' .. fingerprint))
local need = number_of(prompt) + math.max(number_of(n), number_of(granted))
local kept = bit.band(number_of(control), CANCEL)
-- stylua: ignore
call('HSET', req, 'status', place, 'ck', '', 'rck', '', 'worker', '', 'warm', '', 'held', 0, 'control', int(kept),
  'lane', size > 0 and need > size / 4 and 'large' or 'normal', 'inc', incarnation())
call('HDEL', req, 'dest', 'place', 'due', 'ordered', 'seal')
call('SET', key('in', t, id), args.input)
if #args.tokens > 0 then
  call('SET', key('tok', t, id), args.tokens)
end
call('PERSIST', log)
call('ZADD', P .. 'deadlines', due, member)
if kept ~= 0 then
  expire_now(member)
end
left_alone(t, id)
if place == 'parked' then
  call('ZADD', P .. 'parked', int(NOW), member)
  begin_phase(t, id, 'parked')
else
  enter_line(t, id, class, order, 'queued')
end
return 1
