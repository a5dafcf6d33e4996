-- Money that is being taken out of a limit: until it is booked or given back, nobody else changes that limit. Each
-- take is a field of the limit's hash, its amount and until when it holds, should its taker die.
local TAKE = 'take:'
local TAKE_MS_MAX = 60000
local FIELDS_MAX = 200 -- of a limit's hash, with all takes at once

local function holds(take, now)
  local till = number_of(string.match(take, '^%d+:(%d+)$'))
  return till > now and till <= now + TAKE_MS_MAX
end

-- True where a take holds, or there is no such limit any more; takes that are over are put away.
local function is_being_taken(key, now)
  if call('HLEN', key) > FIELDS_MAX then
    call('DEL', key) -- none of ours: it is counted from the books again, and nobody sets its limit before
    return true
  end
  local found, fields = false, call('HGETALL', key)
  for at = 1, #fields, 2 do
    if string.sub(fields[at], 1, #TAKE) == TAKE then
      if holds(fields[at + 1], now) then
        found = true
      else
        call('HDEL', key, fields[at])
      end
    end
  end
  return found
end
