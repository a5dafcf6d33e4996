local call = redis.call
-- Every key that is named here begins with the tenant's tag, as the declared ones do: one slot.
local P = string.match(KEYS[1], '^{t:[^}]*}')

-- Never tostring: it keeps 14 digits.
local function int(number)
  return string.format('%.0f', number)
end

local function clock(given)
  local now = tonumber(given)
  if now == 0 then
    local time = call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  return now
end
