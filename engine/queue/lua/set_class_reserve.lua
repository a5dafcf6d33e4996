#!lua flags=allow-oom
--: args: now_ms:int, priority:str, tokens:int
--: reply: bool
-- KV tokens of the pool that lower classes leave free for this one while it uses less.
if args.tokens > 0 then
  call('HSET', KEYS[1], 'reserve:' .. args.priority, args.tokens)
else
  call('HDEL', KEYS[1], 'reserve:' .. args.priority)
end
return 1
