#!lua flags=allow-oom
-- set_class_reserve(now, class, tokens): KV tokens of the pool that lower classes leave free for this one while it uses
-- less.
if tonumber(ARGV[3]) > 0 then
  call('HSET', KEYS[1], 'reserve:' .. ARGV[2], ARGV[3])
else
  call('HDEL', KEYS[1], 'reserve:' .. ARGV[2])
end
return 1
