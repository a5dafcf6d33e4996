#!lua flags=allow-oom
-- park(now, t, id): parks it, or asks its worker to. Replies the status it had.
local status = park(ARGV[2], ARGV[3])
publish()
return status
