#!lua flags=allow-oom
--: args: now_ms:int, worker:str, why:str, deaths_max:int
--: reply: int
-- It takes no more work and what it holds is requeued. Replies how many.
notice_restart()
local requeued = dismiss(args.worker, args.why, math.huge, args.deaths_max)
measure(left_without)
publish()
return requeued
