#!lua flags=allow-oom
--: args: pool:str, hop:int, seal:bytes, seal_before:bytes
--: reply: bytes
-- A request has migrated to another pool: its binding follows, where no later move has been here.
-- KEYS: rq
-- Replies the pool that it is bound to, empty where the record is gone; nil where its seal is another one.
local pool, hop, seal = unpack(call('HMGET', KEYS[1], 'pool', 'hop', 'seal'))
if not pool then
  return ''
end
if number_of(hop) >= args.hop then
  return pool
end
if (seal or '') ~= args.seal_before then
  return nil
end
call('HSET', KEYS[1], 'pool', args.pool, 'hop', args.hop)
if args.seal ~= '' then
  call('HSET', KEYS[1], 'seal', args.seal)
end
return args.pool
