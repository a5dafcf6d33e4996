#!lua flags=allow-oom
-- Which server has a tenant's sums, and since when without a loss that took all of them.
-- KEYS: posted (the tenant's sums). ARGV: now_ms or 0
-- Reply: the server's run id, since when, and when the first request was counted in the sums ("" where that is not
--        known), in ms
local now = clock(ARGV[1])
call('HSETNX', KEYS[1], 'since', int(now))
return {
  string.match(call('INFO', 'server'), 'run_id:(%x+)'),
  call('HGET', KEYS[1], 'since'),
  call('HGET', KEYS[1], 'began') or '',
}
