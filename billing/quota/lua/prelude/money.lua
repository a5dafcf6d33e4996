-- Money, in nano-USD below 2^53. Of each budget and window, and of the wallet, a hash: `posted` is what the books
-- say as of line `seed` and what was booked since, `unbooked` what ended requests cost whose lines are not
-- booked yet, `held` and `open` what open requests hold, and how many they are. Without `seed` nothing is known.
-- A limit on money is {key, limit, override, override until, hard, shadow, window's end, revision, member}.
-- The wallet's window never ends: its `posted` grows past 2^53, as text. Here it and its limit are modulo MODULUS.
-- How far one is ahead of the other stays exact, as what a wallet can hold is less than half of that.
local KEEP_MS = 7 * 86400000
local COST_MAX = 4000000000000001
local MODULUS = 9000000000000000
local AHEAD_MS_MAX = 300000 -- of a limit's revision, which is a time: a later one is nobody's

-- Tokens at a price for a million of them, rounded up. Two lines may be made of them, each rounded to the
-- nearest: one more covers both.
local function line(tokens, price)
  if tokens == 0 or price == 0 then
    return 0
  end
  local rest = price % 1000000
  return tokens * ((price - rest) / 1000000) + math.ceil(tokens * rest / 1000000) + 1
end

-- The most that a request of these tokens can cost. Prices: of input, of output, of the request.
local function cost_of(input, output, prices)
  local cost = line(input, prices[1]) + line(output, prices[2]) + math.ceil(prices[3] / 1000000)
  return math.min(cost, COST_MAX)
end

-- An amount modulo MODULUS, from its text: the digits above 10^9 and those below stay exact by themselves.
local function modulo_of(amount)
  local high = number_of(string.sub(amount, 1, -10))
  return (high % (MODULUS / 1000000000)) * 1000000000 + number_of(string.sub(amount, -9))
end

local FIELDS = { 'seed', 'posted', 'unbooked', 'held', 'open', 'limit', 'over', 'till', 'hard', 'rev' }

local function read_money(key, now)
  local found = call('HMGET', P .. key, unpack(FIELDS))
  local money = {}
  for at = 1, #FIELDS do
    local value = found[at]
    money[FIELDS[at]] = value and value ~= '0' and whole_of(value) or 0
  end
  money.seed = found[1] and whole_of(found[1])
  if money.rev > now + AHEAD_MS_MAX then
    money.rev = 0
  end
  if found[2] and string.find(key, '^money:tenant::wallet:') then
    money.modular, money.posted = true, modulo_of(found[2])
  end
  return money
end

-- How far the limit is ahead of what is posted: a wallet's is the one that is nearest to it. Only the difference is
-- brought into range: a limit moved by itself may be past 2^53, and no longer exact.
local function ahead_of_posted(money, now)
  local ahead = (now < money.till and money.over or money.limit) - money.posted
  if money.modular and ahead < -MODULUS / 2 then
    return ahead + MODULUS
  elseif money.modular and ahead >= MODULUS / 2 then
    return ahead - MODULUS
  end
  return ahead
end

-- The limit, to be told.
local function limit_at(money, now)
  return money.posted + ahead_of_posted(money, now)
end

-- What is left under the limit; it may be below zero where that was lowered.
local function left(money, now)
  return ahead_of_posted(money, now) - money.unbooked - money.held
end

-- Add to what is held of a limit whose balance this script has read.
local function hold_more(limit, balance, more)
  call_again('HSET', P .. limit[1], 'held', int(math.max(0, balance.held + more)))
  if not balance.seed then
    call_again('PEXPIREAT', P .. limit[1], int(limit[7] + KEEP_MS))
  end
end

-- Add to what is held, open and unbooked, none of which ever falls below nothing.
local function move(limit, held, open, unbooked)
  local key = P .. limit[1]
  local found = call('HMGET', key, 'held', 'open', 'unbooked', 'seed')
  -- stylua: ignore
  call_again('HSET', key,
    'held', int(math.max(0, number_of(found[1]) + held)),
    'open', int(math.max(0, number_of(found[2]) + open)),
    'unbooked', int(math.max(0, number_of(found[3]) + unbooked)))
  if not found[4] then
    call_again('PEXPIREAT', key, int(limit[7] + KEEP_MS))
  end
end
