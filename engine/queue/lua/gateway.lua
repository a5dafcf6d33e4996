#!lua flags=allow-oom
--: args: now_ms:int, gateway:str, lease_ms:int
--: reply: bool
-- Keeps a gateway's lease. Replies 0 where it had lapsed and its readers are dropped.
local known = call('ZSCORE', P .. 'gws', args.gateway)
call('ZADD', P .. 'gws', int(NOW + args.lease_ms), args.gateway)
return known and 1 or 0
