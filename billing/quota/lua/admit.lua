#!lua
--: args: now_ms:int, attempt:str, id:str, body_hash:str, pool:str, fingerprint:str, project:str, key:str,
--:   used_key:str, user:str, model:str, input_tokens:int, chunk_tokens:int, unlimited_tokens:int, deadline_ms:int,
--:   grace_ms:int, owner:bytes, prices:bytes, limits:bytes, seal:bytes, next_from_ms:int, next_prices:bytes,
--:   next_limits:bytes, next_seal:bytes
--: reply: verdict:str, unknown:[int], refusal:(str,int,int,int,int,int,int)?, dup:bool, pool:str, fingerprint:str,
--:   cancelled:bool, granted:int, state:str, left:[int], shadowed:[(str,int,int,int,int,int,int)], prices:bytes,
--:   sealed:[bytes?]
-- Admit a request of one tenant under all its limits, or return what it is bound to already. Writes nothing where
-- it refuses.
-- KEYS: rq (directory record), cancel (a set of cancellers), conc (open requests by deadline), live (the same by
--       admission), then those of the limits
-- Limits, as msgpack: {rates, concurrency, money, prices of input, output and request}. `left`: what is left of each
-- limit. A refusal: kind of limit, its number, limit, left, spent, held, after_ms or -1.
local now = clock(args.now_ms)
local TIDY = 8 -- what is past its deadline counts nothing; it is put away now and then
local id, input, chunk = args.id, args.input_tokens, args.chunk_tokens

local known = call('HMGET', KEYS[1], 'state', 'hash', 'owner', 'attempt')
if known[1] and known[1] ~= 'released' then
  if known[2] ~= args.body_hash or known[3] ~= args.owner then
    return cmsgpack.pack({ verdict = 'conflict' })
  end
  -- The same attempt again is a retry of a call whose reply was lost, not a second sending.
  local record = call('HMGET', KEYS[1], 'pool', 'fp', 'prices', 'cancelled', 'granted')
  -- stylua: ignore
  local sealed = call('HMGET', KEYS[1], 'hash', 'owner', 'pool', 'fp', 'prices', 'project', 'key', 'by', 'user',
    'model', 'input', 'deadline', 'hop', 'seal')
  local bound = {
    verdict = 'ok',
    dup = known[4] ~= args.attempt,
    pool = record[1],
    fingerprint = record[2],
    cancelled = record[4] == '1',
    granted = number_of(record[5]),
    state = known[1],
  }
  return { cmsgpack.pack(bound), record[3], unpack(sealed) }
end

-- A version of prices that begins between the gateway's look and now has begun.
local bound, packed, seal = args.prices, args.limits, args.seal
if args.next_from_ms > 0 and now >= args.next_from_ms then
  bound, packed, seal = args.next_prices, args.next_limits, args.next_seal
end
local rates, concurrency, money, prices = unpack(unpacked(packed), 1, 4)
if #rates > LIMITS_MAX or #concurrency > LIMITS_MAX or #money > LIMITS_MAX then
  error('there are too many limits')
end
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
  local balance = read_money(limit[1], now)
  if not balance.seed then
    unknown[#unknown + 1] = number
  end
  if limit[8] >= balance.rev then
    local _, most, over, till = unpack(limit, 1, 4)
    local hard, rev = limit[5] and 1 or 0, limit[8]
    balance.edited = balance.limit ~= most
      or balance.over ~= over
      or balance.till ~= till
      or balance.hard ~= hard
      or balance.rev ~= rev
    balance.limit, balance.over, balance.till, balance.hard, balance.rev = most, over, till, hard, rev
  end
  balances[number] = balance
end
if #unknown > 0 then
  return cmsgpack.pack({ verdict = 'seed', unknown = unknown })
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
  buckets = call_again('MGET', unpack(buckets)) -- nil of a key of another type
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
  return cmsgpack.pack({ verdict = 'refused', refusal = refusal })
end

-- From here on it is admitted, and everything is written.
local granted = chunked and chunk or args.unlimited_tokens
local rest = {} -- of each limit: what is left, of a rate also when nothing is used any more
for number, limit in ipairs(rates) do
  local used, at = unpack(levels[number])
  use(limit[1], used, at, limit[3])
  local back = limit[3] > 0 and math.ceil(used / limit[3]) or 0
  rest[#rest + 1] = math.max(0, math.floor((limit[4] * UNIT - used) / UNIT))
  rest[#rest + 1] = at + back
end
local leaves = int(args.deadline_ms + args.grace_ms)
for number, limit in ipairs(concurrency) do
  if places[number] % TIDY == 0 then
    call_again('ZREMRANGEBYSCORE', P .. limit[1], '-inf', int(now))
  end
  call_again('ZADD', P .. limit[1], leaves, id)
  rest[#rest + 1] = places[number]
end
for number, limit in ipairs(money) do
  local balance = balances[number]
  call_again('HSET', P .. limit[1], 'held', int(balance.held + cost), 'open', int(balance.open + 1))
  if balance.edited then
    -- stylua: ignore
    call_again('HSET', P .. limit[1], 'limit', int(balance.limit), 'over', int(balance.over), 'till', int(balance.till),
      'hard', balance.hard, 'rev', int(balance.rev))
  end
  rest[#rest + 1] = math.max(0, left(balance, now) - cost)
end

-- Who may have cancelled it before it came: anyone's canceller, its key's, its user's.
local who = { '*', 'k:' .. args.project .. ':' .. args.key, 'u:' .. args.project .. ':' .. args.user }
local cancelled = math.max(unpack(call('SMISMEMBER', KEYS[2], unpack(who))))
call_again('DEL', KEYS[2], KEYS[1])
-- stylua: ignore
call_again('HSET', KEYS[1],
  'state', 'open', 'attempt', args.attempt, 'hash', args.body_hash, 'owner', args.owner, 'pool', args.pool,
  'fp', args.fingerprint, 'prices', bound, 'project', args.project, 'key', args.key, 'by', args.used_key,
  'user', args.user, 'model', args.model, 'input', input, 'granted', granted, 'deadline', args.deadline_ms,
  'admitted', int(now), 'cancelled', cancelled, 'limits', packed, 'hold', int(#money > 0 and cost or 0))
call('ZREMRANGEBYSCORE', KEYS[3], '-inf', '(' .. int(now))
call_again('ZADD', KEYS[3], leaves, id)
call('ZADD', KEYS[4], int(now), id)
if seal ~= '' then
  call_again('HSET', KEYS[1], 'seal', seal)
end
local admitted = {
  verdict = 'ok',
  dup = false,
  pool = args.pool,
  fingerprint = args.fingerprint,
  cancelled = cancelled == 1,
  granted = granted,
  state = 'open',
  left = rest,
  shadowed = shadowed,
}
return { cmsgpack.pack(admitted), bound }
