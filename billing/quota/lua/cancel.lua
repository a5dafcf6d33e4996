#!lua flags=allow-oom
--: args: mark_ms:int, canceller:str
--: reply: [bytes]
-- A cancel: return the record of a known request, else leave a mark that its admission will meet.
-- KEYS: rq, cancel (a set of cancellers)
-- Replies the record's fields and values, none where the mark was left.
local record = call('HGETALL', KEYS[1])
if #record > 0 and call('HGET', KEYS[1], 'state') ~= 'released' then
  return record
end
call('SADD', KEYS[2], args.canceller)
call('PEXPIRE', KEYS[2], args.mark_ms)
return {}
