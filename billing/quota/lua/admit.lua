#!lua
-- Admit a request of one tenant under all its limits, or return what it is bound to already. Writes nothing where
-- it refuses.
-- KEYS: rq (directory record), cancel (a set of cancellers), conc (open requests by deadline), live (the same by
--       admission), then those of the limits
-- ARGV: now_ms or 0, attempt, id, body hash, owner, pool, fingerprint, prices, project, key, user, model,
--       input tokens, chunk tokens, unlimited tokens, deadline_ms, grace_ms,
--       limits as msgpack: {rates, concurrency, money, prices of input, output and request},
--       the key that was used (`key` is the first of its chain), seal or "" (billing/quota/bindings.py),
--       from when on (0: never) other prices hold, those, the limits with them, the seal of that
-- Reply: {"ok", dup, pool, fingerprint, prices, cancelled, granted, state, left of each limit, shadow refusals,
--        of a known one all that is sealed, and the seal},
--        {"conflict"}, {"seed", numbers of the money limits of which nothing is known}, or {"refused", refusal}.
--        A refusal: kind of limit, its number, limit, left, spent, held, after_ms or -1
local now = clock(ARGV[1])
local TIDY = 8 -- what is past its deadline counts nothing; it is put away now and then
local id, input, chunk = ARGV[3], tonumber(ARGV[13]), tonumber(ARGV[14])

local known = call('HMGET', KEYS[1], 'state', 'hash', 'owner', 'attempt')
if known[1] and known[1] ~= 'released' then
  if known[2] ~= ARGV[4] or known[3] ~= ARGV[5] then
    return { 'conflict' }
  end
  -- The same attempt again is a retry of a call whose reply was lost, not a second sending.
  local dup = known[4] == ARGV[2] and 0 or 1
  local record = call('HMGET', KEYS[1], 'pool', 'fp', 'prices', 'cancelled', 'granted')
  -- stylua: ignore
  local sealed = call('HMGET', KEYS[1], 'hash', 'owner', 'pool', 'fp', 'prices', 'project', 'key', 'by', 'user',
    'model', 'input', 'deadline', 'hop', 'seal')
  return {
    'ok',
    dup,
    record[1],
    record[2],
    record[3],
    tonumber(record[4]) or 0,
    tonumber(record[5]) or 0,
    known[1],
    {},
    {},
    sealed,
  }
end

-- A version of prices that begins between the gateway's look and now has begun.
local bound, packed, seal = ARGV[8], ARGV[18], ARGV[20]
if tonumber(ARGV[21]) > 0 and now >= tonumber(ARGV[21]) then
  bound, packed, seal = ARGV[22], ARGV[23], ARGV[24]
end
local rates, concurrency, money, prices = unpack(cmsgpack.unpack(packed))
local refusal, longest, shadowed = nil, -1, {}

local function refuse(shadow, after, ...)
  local answer = { ... }
  answer[#answer + 1] = after
  if shadow then
    shadowed[#shadowed + 1] = answer
  elseif after > longest or not refusal then
    -- Money first: waiting does not help. Then what takes longest.
    if not refusal or refusal[1] ~= 'money' then
      refusal, longest = answer, after
    end
  end
end

-- Money: what the request may cost at most before it asks for more. Where it is short the first chunk halves,
-- down to one token.
local balances, unknown = {}, {}
for number, limit in ipairs(money) do
  local balance = read_money(limit[1])
  if not balance.seed then
    unknown[#unknown + 1] = number
  end
  if limit[8] >= balance.rev then
    local given = { limit = limit[2], over = limit[3], till = limit[4], hard = limit[5] and 1 or 0, rev = limit[8] }
    for name, value in pairs(given) do
      balance.edited = balance.edited or balance[name] ~= value
      balance[name] = value
    end
  end
  balances[number] = balance
end
if #unknown > 0 then
  return { 'seed', unknown }
end
for number, limit in ipairs(money) do
  if balances[number].hard == 1 and not limit[6] then
    while chunk > 1 and cost_of(input, chunk, prices) > math.max(0, left(balances[number], now)) do
      chunk = math.floor(chunk / 2)
    end
  end
end
local cost, least = cost_of(input, chunk, prices), cost_of(input, math.min(chunk, 1), prices)
for number, limit in ipairs(money) do
  local balance = balances[number]
  local rest = left(balance, now)
  if least > 0 and least > rest and (balance.hard == 1 or limit[6]) then
    refuse(
      limit[6],
      -1,
      'money',
      number,
      limit_at(balance, now),
      math.max(0, rest),
      balance.posted + balance.unbooked,
      balance.held
    )
  end
end

-- Rates: a request above the burst is let in by a bucket of which nothing is used, and leaves it in debt.
local levels, chunked, buckets = {}, #money > 0, {}
if #rates > 0 then
  for number, limit in ipairs(rates) do
    buckets[number] = P .. limit[1]
  end
  buckets = call('MGET', unpack(buckets))
end
for number, limit in ipairs(rates) do
  local amount = taken(limit[2], 1, input, chunk)
  local used, at = used_of(buckets[number], now)
  local burst = limit[4] * UNIT
  if limit[3] == 0 then
    refuse(limit[5], -1, 'rate', number, 0, 0, 0, 0)
  elseif used > 0 and used + amount > burst then
    local after = math.max(1, math.ceil((used - math.max(0, burst - amount)) / limit[3]))
    refuse(limit[5], after, 'rate', number, limit[3], math.max(0, math.floor((burst - used) / UNIT)), 0, 0)
  end
  chunked = chunked or limit[2] == OUTPUT or limit[2] == TOKENS
  levels[number] = { used + amount, at }
end

local places = {}
for number, limit in ipairs(concurrency) do
  local open = call('ZCOUNT', P .. limit[1], '(' .. int(now), '+inf')
  if open >= limit[2] then
    refuse(limit[3], limit[2] == 0 and -1 or 1000, 'concurrency', number, limit[2], 0, open, 0)
  end
  places[number] = math.max(0, limit[2] - open - 1)
end
if refusal then
  return { 'refused', refusal }
end

-- From here on it is admitted, and everything is written.
local granted = chunked and int(chunk) or ARGV[15]
local rest = {} -- of each limit: what is left, of a rate also when nothing is used any more
for number, limit in ipairs(rates) do
  local used, at = unpack(levels[number])
  use(limit[1], used, at, limit[3])
  local back = limit[3] > 0 and math.ceil(used / limit[3]) or 0
  rest[#rest + 1] = math.max(0, math.floor((limit[4] * UNIT - used) / UNIT))
  rest[#rest + 1] = at + back
end
local leaves = int(tonumber(ARGV[16]) + tonumber(ARGV[17]))
for number, limit in ipairs(concurrency) do
  if places[number] % TIDY == 0 then
    call('ZREMRANGEBYSCORE', P .. limit[1], '-inf', int(now))
  end
  call('ZADD', P .. limit[1], leaves, id)
  rest[#rest + 1] = places[number]
end
for number, limit in ipairs(money) do
  local balance = balances[number]
  call('HSET', P .. limit[1], 'held', int(balance.held + cost), 'open', int(balance.open + 1))
  if balance.edited then
    -- stylua: ignore
    call('HSET', P .. limit[1], 'limit', int(balance.limit), 'over', int(balance.over), 'till', int(balance.till),
      'hard', balance.hard, 'rev', int(balance.rev))
  end
  rest[#rest + 1] = math.max(0, left(balance, now) - cost)
end

-- Who may have cancelled it before it came: anyone's canceller, its key's, its user's.
local who = { '*', 'k:' .. ARGV[9] .. ':' .. ARGV[10], 'u:' .. ARGV[9] .. ':' .. ARGV[11] }
local cancelled = math.max(unpack(call('SMISMEMBER', KEYS[2], unpack(who))))
call('DEL', KEYS[2], KEYS[1])
-- stylua: ignore
call('HSET', KEYS[1],
  'state', 'open', 'attempt', ARGV[2], 'hash', ARGV[4], 'owner', ARGV[5], 'pool', ARGV[6], 'fp', ARGV[7],
  'prices', bound, 'project', ARGV[9], 'key', ARGV[10], 'by', ARGV[19], 'user', ARGV[11], 'model', ARGV[12],
  'input', ARGV[13], 'granted', granted, 'deadline', ARGV[16],
  'admitted', int(now), 'cancelled', cancelled, 'limits', packed, 'hold', int(#money > 0 and cost or 0))
call('ZREMRANGEBYSCORE', KEYS[3], '-inf', '(' .. int(now))
call('ZADD', KEYS[3], leaves, id)
call('ZADD', KEYS[4], int(now), id)
if seal ~= '' then
  call('HSET', KEYS[1], 'seal', seal)
end
return { 'ok', 0, ARGV[6], ARGV[7], bound, cancelled, tonumber(granted), 'open', rest, shadowed, {} }
