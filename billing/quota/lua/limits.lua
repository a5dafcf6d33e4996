#!lua flags=allow-oom
--: args: limits:[PushedLimit]
--: reply: int
--: PushedLimit: limit:int, override:int, override_until_ms:int, hard:bool, revision:int
-- The limits of money as they are from now on, for the answers that run: an admission brings its own.
-- KEYS: keys of money, one a limit
for at, key in ipairs(KEYS) do
  if call('HEXISTS', key, 'seed') == 1 then
    local limit = args.limits[at]
    local revision = math.max(tonumber(call('HGET', key, 'rev') or 0), limit.revision)
    -- stylua: ignore
    call('HSET', key, 'limit', limit.limit, 'over', limit.override, 'till', limit.override_until_ms,
      'hard', limit.hard and 1 or 0, 'rev', int(revision))
  end
end
return #KEYS
