#!lua flags=allow-oom
-- A request has moved to another pool: its binding follows, where no later move has been here.
-- KEYS: rq   ARGV: pool, hop (how many moves there were)
-- Reply: the pool that it is bound to, empty where the record is gone
local pool, hop = unpack(redis.call('HMGET', KEYS[1], 'pool', 'hop'))
if not pool then
  return ''
end
if tonumber(hop or 0) >= tonumber(ARGV[2]) then
  return pool
end
redis.call('HSET', KEYS[1], 'pool', ARGV[1], 'hop', ARGV[2])
return ARGV[1]
