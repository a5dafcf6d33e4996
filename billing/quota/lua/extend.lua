#!lua flags=allow-oom
--: args: now_ms:int, to_tokens:int, wait_step_ms:int, wait_ms_max:int
--: reply: verdict:str, granted:int, after_ms:int, key:str, limit:int, left:int, spent:int, held:int,
--:   window_end_ms:int
-- Raise the number of output tokens a request may append. The target is absolute, so a repeat changes nothing.
-- Only money refuses; rates go into debt.
-- KEYS: rq
-- Replies granted, unknown, wait (with how long) or refused, with what of which limit of money.
local now = clock(args.now_ms)
local function granted_so_far(verdict, tokens, after_ms)
  return cmsgpack.pack({ verdict = verdict, granted = tokens, after_ms = after_ms })
end

local record = call('HMGET', KEYS[1], 'state', 'granted', 'limits', 'input', 'hold', 'wait')
if not record[1] then
  return granted_so_far('unknown', 0)
end
local granted, target, input, hold = number_of(record[2]), args.to_tokens, number_of(record[4]), number_of(record[5])
if record[1] ~= 'open' or target <= granted then
  return granted_so_far('granted', granted)
end
local rates, _, money, prices = limits_of(record[3])

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
  balances[number] = read_money(limit[1], now)
  while tokens > 1 and blocks(number, limit, tokens) do
    tokens = math.floor(tokens / 2)
  end
end

for number, limit in ipairs(money) do
  local balance = balances[number]
  if blocks(number, limit, 1) then
    local since = whole_of(record[6]) or now
    -- What others hold may come back.
    if balance.held > hold and now - since < args.wait_ms_max then
      if not record[6] then
        call_again('HSET', KEYS[1], 'wait', int(now))
      end
      return granted_so_far('wait', granted, args.wait_step_ms)
    end
    return cmsgpack.pack({
      verdict = 'refused',
      granted = granted,
      key = limit[1],
      limit = limit_at(balance, now),
      left = math.max(0, left(balance, now)),
      spent = balance.posted + balance.unbooked,
      held = balance.held,
      window_end_ms = limit[7],
    })
  end
end

if #money > 0 then
  local more = cost_of(input, granted + tokens, prices) - hold
  for number, limit in ipairs(money) do
    hold_more(limit, balances[number], more)
  end
  hold = hold + more
end
adjust(rates, now, 0, 0, tokens)
call_again('HSET', KEYS[1], 'granted', int(granted + tokens), 'hold', int(hold))
call_again('HDEL', KEYS[1], 'wait')
return granted_so_far('granted', granted + tokens)
