#!lua flags=allow-oom
-- unpark(now, t, id): back in line at its old place. Replies the status it had.
local status = unpark(ARGV[2], ARGV[3])
publish()
return status
