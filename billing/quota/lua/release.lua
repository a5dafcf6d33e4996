#!lua flags=allow-oom
--: args: now_ms:int, id:str, keep_ms:int, not_open:bool
--: reply: bool
-- Undo an admission that the queue refused. A later sending of the same id is admitted anew; until then the
-- record tells `settle` what to close, should another gateway have enqueued the same request after all.
-- What is not open has no place among what is. `not_open`: that alone, of one that is open leave all.
-- KEYS: rq, conc, live
-- Replies 1 where it was open.
local record = call('HMGET', KEYS[1], 'state', 'limits', 'input', 'granted', 'hold')
if record[1] ~= 'open' then
  call('ZREM', P .. 'conc', args.id)
  call('ZREM', P .. 'live', args.id)
  return 0
elseif args.not_open then
  return 0
end
close(
  clock(args.now_ms),
  args.id,
  record[2],
  { 1, number_of(record[3]), number_of(record[4]) },
  { 0, 0, 0 },
  number_of(record[5]),
  -1,
  0
)
call('HSET', KEYS[1], 'state', 'released', 'hold', 0)
call('PEXPIRE', KEYS[1], args.keep_ms)
return 1
