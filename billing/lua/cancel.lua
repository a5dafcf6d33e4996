#!lua flags=allow-oom
-- A cancel: return the record of a known request, else leave a mark that its admission will meet.
-- KEYS: rq, cancel   ARGV: mark_ms
-- Reply: the record's fields and values, empty where the mark was left
local record = redis.call('HGETALL', KEYS[1])
if #record > 0 and redis.call('HGET', KEYS[1], 'state') ~= 'released' then
  return record
end
redis.call('SET', KEYS[2], 1, 'PX', ARGV[1])
return {}
