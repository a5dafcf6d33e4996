#!lua flags=allow-oom
-- migrate_adopt(now, t, id, hop, head, input, tokens, then the record's fields and values): the request is of this pool
-- from now on, once for each hop, at its old position in line. Replies {1 or 0, status}; {-1, head} where its log has
-- not been copied.
local t, id, hop, head = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local req, log, member = key('req', t, id), key('log', t, id), member_of(t, id)
local status, here = unpack(call('HMGET', req, 'status', 'hop'))
if status and (status ~= 'moved' or number_of(here) >= hop) then -- what lives here is never replaced
  return { 0, status }
end
local copied = last_offset(log)
if copied ~= head then
  return { -1, copied }
end
call('DEL', req)
call('HSET', req, unpack(ARGV, 8))
-- stylua: ignore
local class, order, place, due, control, prompt, n, granted, fingerprint = unpack(call('HMGET', req, 'class', 'order',
  'place', 'due', 'control', 'prompt', 'n', 'granted', 'fingerprint'))
local size = number_of(call('HGET', KEYS[1], 'size:' .. fingerprint))
local need = prompt + math.max(tonumber(n), tonumber(granted))
local kept = bit.band(number_of(control), CANCEL)
-- stylua: ignore
call('HSET', req, 'status', place, 'ck', '', 'rck', '', 'worker', '', 'warm', '', 'held', 0, 'control', int(kept),
  'lane', size > 0 and need > size / 4 and 'large' or 'normal', 'inc', incarnation())
call('HDEL', req, 'dest', 'place', 'due', 'ordered', 'seal')
call('SET', key('in', t, id), ARGV[6])
if #ARGV[7] > 0 then
  call('SET', key('tok', t, id), ARGV[7])
end
call('PERSIST', log)
call('ZADD', P .. 'deadlines', due, member)
if kept ~= 0 then
  doom(member)
end
left_alone(t, id)
if place == 'parked' then
  call('ZADD', P .. 'parked', int(NOW), member)
else
  enter_line(t, id, class, order)
end
return { 1, place }
