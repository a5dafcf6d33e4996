#!lua flags=allow-oom
-- deregister(now, worker, why, deaths max): it takes no more work and what it holds is requeued. Replies how many.
notice_restart()
local requeued = dismiss(ARGV[2], ARGV[3], math.huge, tonumber(ARGV[4]))
publish()
return requeued
