#!lua flags=allow-oom
--: args: now_ms:int, tenant:str, id:str, hop:int, after:int, keep_seconds:int, entries:[CopiedEntry], parts:[bytes]
--: reply: int
--: CopiedEntry: at:str, parts:int
-- A part of the log of a request that comes from another pool, behind offset `after`. Replies the head of what has been
-- copied; -1 where the request has arrived.
local t, id = args.tenant, args.id
local log, read = key('log', t, id), 0
local status, here = unpack(call('HMGET', key('req', t, id), 'status', 'hop'))
if status and (status ~= 'moved' or number_of(here) >= args.hop) then
  return -1
end
if args.after == 0 then
  call('DEL', log) -- also what is left of an earlier stay
end
if last_offset(log) == args.after then
  for _, entry in ipairs(args.entries) do
    call('XADD', log, entry.at, unpack(args.parts, read + 1, read + entry.parts))
    read = read + entry.parts
  end
  call('EXPIRE', log, args.keep_seconds)
end
return last_offset(log)
