#!lua flags=allow-oom
-- Raise the number of output tokens a request may append. The target is absolute, so a repeat changes nothing.
-- Only money refuses; rates go into debt.
-- KEYS: rq   ARGV: to_tokens, now_ms or 0, step_ms and most_ms of waiting
-- Reply: {"granted", n} | {"wait", n, after_ms} | {"unknown", 0} |
--        {"refused", n, key of the money limit, limit, left, spent, held, the window's end}
local now = clock(ARGV[2])
local record = call('HMGET', KEYS[1], 'state', 'granted', 'limits', 'input', 'hold', 'wait')
if not record[1] then
  return { 'unknown', 0 }
end
local granted, target, input, hold = tonumber(record[2]), tonumber(ARGV[1]), tonumber(record[4]), tonumber(record[5])
if record[1] ~= 'open' or target <= granted then
  return { 'granted', granted }
end
local rates, _, money, prices = unpack(cmsgpack.unpack(record[3]))

-- Of what is left each open stream may take as much. Near the end grants halve, down to one token.
local balances, tokens = {}, target - granted
local function blocks(number, limit, wanted)
  local balance = balances[number]
  local more = cost_of(input, granted + wanted, prices) - hold
  local rest = left(balance, now)
  return balance.hard == 1
    and not limit[6]
    and more > 0
    and more * (wanted > 1 and math.max(1, balance.open) or 1) > rest
end

for number, limit in ipairs(money) do
  balances[number] = read_money(limit[1])
  while tokens > 1 and blocks(number, limit, tokens) do
    tokens = math.floor(tokens / 2)
  end
end

for number, limit in ipairs(money) do
  local balance = balances[number]
  if blocks(number, limit, 1) then
    local since = tonumber(record[6] or now)
    -- What others hold may come back.
    if balance.held > hold and now - since < tonumber(ARGV[4]) then
      if not record[6] then
        call('HSET', KEYS[1], 'wait', int(now))
      end
      return { 'wait', granted, tonumber(ARGV[3]) }
    end
    return {
      'refused',
      granted,
      limit[1],
      limit_at(balance, now),
      math.max(0, left(balance, now)),
      balance.posted + balance.unbooked,
      balance.held,
      limit[7],
    }
  end
end

if #money > 0 then
  local more = cost_of(input, granted + tokens, prices) - hold
  for _, limit in ipairs(money) do
    move(limit, more, 0, 0)
  end
  hold = hold + more
end
adjust(rates, now, 0, 0, tokens)
call('HSET', KEYS[1], 'granted', int(granted + tokens), 'hold', int(hold))
call('HDEL', KEYS[1], 'wait')
return { 'granted', granted + tokens }
