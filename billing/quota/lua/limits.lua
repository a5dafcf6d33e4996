#!lua flags=allow-oom
--: args: now_ms:int, read_ms:int, limits:[PushedLimit]
--: reply: int
--: PushedLimit: limit:int, override:int, override_until_ms:int, hard:bool, revision:int
-- The limits of money as they are from now on, for the answers that run: an admission brings its own. A limit of
-- which money is being taken stays, as its taker tells it next; so does one that was read later than these.
-- KEYS: keys of money, one a limit
-- Replies the time: what is read after it may be pushed with it as read_ms.
local now = clock(args.now_ms)
for at, limit in ipairs(args.limits) do
  local key = KEYS[at]
  local seeded, revision, read = unpack(call('HMGET', key, 'seed', 'rev', 'read'))
  read, revision = number_of(read), number_of(revision)
  if revision > now + AHEAD_MS_MAX then
    revision = 0
  end
  local is_older = args.read_ms < read and read <= now -- what was read in the future is no mark of ours
  if seeded and not is_older and not is_being_taken(key, now) then
    -- stylua: ignore
    call('HSET', key, 'limit', limit.limit, 'over', limit.override, 'till', limit.override_until_ms,
      'hard', limit.hard and 1 or 0, 'rev', int(math.max(revision, limit.revision)),
      'read', args.read_ms)
  end
end
return now
