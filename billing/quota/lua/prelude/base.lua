-- Every key that is named here begins with the tenant's tag, as the declared ones do: one slot.
local P = string.match(KEYS[1], '^{t:[^}]*}')
local LIMITS_MAX = 64 -- of one kind; a request has fewer

local sub = string.sub

-- Raises an error where a limit of the list names no key of its kind, which begins so, or so where it refuses nobody.
local function require_names(limits, begin, shadow)
  for at, limit in ipairs(limits) do
    local found = sub(limit[1], 1, #begin)
    if (found ~= begin and found ~= shadow) or at > LIMITS_MAX then
      error('a limit is none')
    end
  end
end

local function require_limits(rates, concurrency, money, prices)
  require_names(rates, 'rate:', 'rate~')
  require_names(concurrency, 'conc:', 'conc~')
  require_names(money, 'money:', 'money~')
  return prices[1] + prices[2] + prices[3]
end

-- The limits in a record, as its admission packed them: rates, concurrency, money, prices. A worker may have written
-- them: where one names a key of another kind there are none, since what is named is changed and deleted.
local function limits_of(packed)
  local found = unpacked(packed)
  if pcall(require_limits, unpack(found, 1, 4)) then
    return unpack(found, 1, 4)
  end
  return {}, {}, {}, { 0, 0, 0 }
end
