#!lua flags=allow-oom
-- A request has migrated to another pool: its binding follows, where no later move has been here.
-- KEYS: rq   ARGV: pool, hop (how many moves there were), the seal of that or "", the seal that it had or ""
-- Reply: the pool that it is bound to, empty where the record is gone; nil where its seal is another one
local pool, hop, seal = unpack(call('HMGET', KEYS[1], 'pool', 'hop', 'seal'))
if not pool then
  return ''
end
if tonumber(hop or 0) >= tonumber(ARGV[2]) then
  return pool
end
if (seal or '') ~= ARGV[4] then
  return nil
end
call('HSET', KEYS[1], 'pool', ARGV[1], 'hop', ARGV[2])
if ARGV[3] ~= '' then
  call('HSET', KEYS[1], 'seal', ARGV[3])
end
return ARGV[1]
