#!lua
-- Raise the number of output tokens a request may append. The target is absolute, so a repeat changes nothing.
-- KEYS: rq   ARGV: to_tokens
-- Reply: {"granted", n} | {"wait", n, after_ms} | {"refused", n, scope, limit} | {"unknown", 0}
local record = redis.call('HMGET', KEYS[1], 'state', 'granted')
if not record[1] then
  return {'unknown', 0}
end
local granted = tonumber(record[2])
local target = tonumber(ARGV[1])
if record[1] == 'open' and target > granted then
  granted = target
  redis.call('HSET', KEYS[1], 'granted', ARGV[1])
end
return {'granted', granted}
