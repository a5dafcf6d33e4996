#!lua flags=allow-oom
-- gateway(now, gateway, lease ms): keeps a gateway's lease. Replies 0 where it had lapsed and its readers are dropped.
local known = call('ZSCORE', P .. 'gws', ARGV[2])
call('ZADD', P .. 'gws', int(NOW + tonumber(ARGV[3])), ARGV[2])
return known and 1 or 0
