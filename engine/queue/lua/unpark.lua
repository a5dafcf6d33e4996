#!lua flags=allow-oom
-- unpark(now, t, id): back in line at its old place. Replies the status it had,
-- {'moved', pool, hop, ordered, seal} where it lives in another one.
local status = redirect(ARGV[2], ARGV[3]) or unpark(ARGV[2], ARGV[3])
publish()
return status
