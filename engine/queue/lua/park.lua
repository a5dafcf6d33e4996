#!lua flags=allow-oom
-- park(now, t, id): parks it, or asks its worker to. Replies the status it had,
-- {'moved', pool, hop, ordered, seal} where it lives in another one.
local status = redirect(ARGV[2], ARGV[3]) or park(ARGV[2], ARGV[3])
publish()
return status
