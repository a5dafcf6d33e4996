#!lua flags=allow-oom
-- order(now, addressee, what, worker, keep ms): leaves an order about a worker with that worker or its supervisor, for
-- a while: one that nobody takes is forgotten, one that waits already is not left again. A worker that is to drain
-- is marked so.
local addressee, what, name = ARGV[2], ARGV[3], ARGV[4]
local orders, worker = P .. 'orders:' .. addressee, P .. 'worker:' .. name
if what == 'drain' and call('EXISTS', worker) == 1 then
  call('HSET', worker, 'state', 'draining')
end
-- Redis users made before this was asked may not ask it: for them it is left again, as it was then.
if type(redis.pcall('LPOS', orders, what .. ' ' .. name)) ~= 'number' then
  call('RPUSH', orders, what .. ' ' .. name)
end
call('PEXPIRE', orders, ARGV[5])
return 1
