#!lua flags=allow-oom
-- The limits of money as they are from now on, for the answers that run: an admission brings its own.
-- KEYS: keys of money   ARGV: for each: limit, override, override until, hard, revision
for at, key in ipairs(KEYS) do
  if call('HEXISTS', key, 'seed') == 1 then
    local given = 5 * (at - 1)
    local revision = math.max(tonumber(call('HGET', key, 'rev') or 0), tonumber(ARGV[given + 5]))
    -- stylua: ignore
    call('HSET', key, 'limit', ARGV[given + 1], 'over', ARGV[given + 2], 'till', ARGV[given + 3],
      'hard', ARGV[given + 4], 'rev', int(revision))
  end
end
return #KEYS
