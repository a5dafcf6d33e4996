-- Token buckets. `used` is what has been taken and did not flow back yet, in sixty-thousandths of a unit: a limit
-- of so many a minute gives back as many of these in a millisecond. A missing key: nothing is used.
-- A limit on a rate is {key, what it counts, limit, burst, shadow}.
local UNIT = 60000
local REQUESTS, INPUT, OUTPUT, TOKENS = 1, 2, 3, 4 -- what a limit may count
local USED_MAX = 9007199254740991
local IDLE_MS = 60000
local VALUE_MAX = 60 -- characters; three numbers of more could be infinite

-- What is used now, as of when, and what flows back each millisecond (nil: nothing is used).
local function used_of(value, now)
  local used, at, rate = string.match(value or '', '^(%d+):(%d+):(%d+)$')
  if not used or #value > VALUE_MAX then
    return 0, now, nil
  end
  at, rate = tonumber(at), tonumber(rate)
  local later = math.max(now, at)
  return math.max(0, tonumber(used) - (later - at) * rate), later, rate
end

local function use(key, used, at, rate)
  if used <= 0 then
    call_again('DEL', P .. key)
    return
  end
  local idle = rate > 0 and math.ceil(used / rate) + IDLE_MS or 60 * IDLE_MS
  local value = string.format('%.0f:%.0f:%.0f', math.min(used, USED_MAX), at, rate)
  call_again('SET', P .. key, value, 'PX', int(idle))
end

-- What a request takes of a limit: itself, its input, so many tokens of output.
local function taken(what, requests, input, output)
  if what == REQUESTS then
    return requests * UNIT
  elseif what == INPUT then
    return input * UNIT
  elseif what == OUTPUT then
    return output * UNIT
  end
  return (input + output) * UNIT
end

-- Take or give back outside of an admission: a debt refuses nobody here.
local function adjust(rates, now, requests, input, output)
  for _, limit in ipairs(rates) do
    local amount = taken(limit[2], requests, input, output)
    if amount ~= 0 then
      local used, at, rate = used_of(call('GET', P .. limit[1]), now)
      use(limit[1], used + amount, at, rate or limit[3])
    end
  end
end
