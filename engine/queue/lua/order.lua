#!lua flags=allow-oom
--: args: now_ms:int, addressee:str, kind:str, worker:str, keep_ms:int
--: reply: bool
-- Leaves an order about a worker with that worker or its supervisor, for a while: one that nobody takes is forgotten,
-- one that waits already is not left again. A worker that is to drain is marked so. How many workers there are is
-- ordered where no worker may write.
local orders = P .. (args.kind == 'resize' and 'sizes:' or 'orders:') .. args.addressee
local worker = P .. 'worker:' .. args.worker
local order = args.kind .. ' ' .. args.worker
if args.kind == 'drain' and call('EXISTS', worker) == 1 then
  call('HSET', worker, 'state', 'draining')
end
-- Redis users made before this was asked may not ask it: for them it is left again, as it was then.
if type(redis.pcall('LPOS', orders, order)) ~= 'number' then
  call('RPUSH', orders, order)
end
call('PEXPIRE', orders, args.keep_ms)
return 1
