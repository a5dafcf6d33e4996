#!lua flags=allow-oom
-- A cancel: return the record of a known request, else leave a mark that its admission will meet.
-- KEYS: rq, cancel (a set of cancellers)   ARGV: mark_ms, canceller
-- Reply: the record's fields and values, empty where the mark was left
local record = call('HGETALL', KEYS[1])
if #record > 0 and call('HGET', KEYS[1], 'state') ~= 'released' then
  return record
end
call('SADD', KEYS[2], ARGV[2])
call('PEXPIRE', KEYS[2], ARGV[1])
return {}
