-- In front of every script: whole numbers as text, and the time. Before it stands what makes `args` of the arguments,
-- by the script's own struct (core/redis/script_calls.py).
local call = redis.call

-- Lua's own tostring keeps 14 digits; times in microseconds have 16, amounts of money as many.
local function int(number)
  return string.format('%.0f', number)
end

-- Microseconds: of these ms, or the server's own where those are 0.
local function clock_us(ms)
  if ms ~= 0 then
    return ms * 1000
  end
  local time = call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- The same in ms.
local function clock(ms)
  return math.floor(clock_us(ms) / 1000)
end
