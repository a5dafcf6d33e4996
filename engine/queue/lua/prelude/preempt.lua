-- Whom a worker gives back so that interactive work can run on it: the lowest class first, then what is cheapest to
-- compute again.
local PREEMPTS_MAX, PREEMPT_AFTER_MS = 3, 2000
local CLAIMS_READ_MAX = 1000
local RANK = { interactive = 1, standard = 2, bulk = 3 }
local HELD = { 'class', 'held', 'prompt', 'n', 'preempts', 'control', 'taken' }

-- What of the worker's claims could be given back, and what is being given back already.
local function candidates_at(name)
  local able, leaving = {}, { tokens = 0, slots = 0 }
  for at, member in ipairs(call('SMEMBERS', P .. 'claims:' .. name)) do
    if at > CLAIMS_READ_MAX then
      break
    end
    local t, id = split(member)
    local class, held, prompt, n, preempts, control, taken = unpack(call('HMGET', key('req', t, id), unpack(HELD)))
    if number_of(control) ~= 0 then
      leaving.tokens, leaving.slots = leaving.tokens + number_of(held), leaving.slots + 1
    elseif
      RANK[class]
      and class ~= 'interactive'
      and number_of(preempts) < PREEMPTS_MAX
      and number_of(taken) <= NOW - PREEMPT_AFTER_MS
    then
      able[#able + 1] =
        { t = t, id = id, rank = RANK[class], held = number_of(held), cost = number_of(prompt) + number_of(n) }
    end
  end
  table.sort(able, function(one, other)
    if one.rank ~= other.rank then
      return one.rank > other.rank
    elseif one.cost ~= other.cost then
      return one.cost < other.cost
    end
    return one.id < other.id
  end)
  return able, leaving
end

-- Orders as few as it takes to leave, none where all would not be enough. Replies {t, id} of each, and whether there
-- will be room.
local function make_room(name, tokens, slots)
  local able, leaving = candidates_at(name)
  local victims = {}
  tokens, slots = tokens - leaving.tokens, slots - leaving.slots
  for _, one in ipairs(able) do
    if tokens > 0 or slots > 0 then
      victims[#victims + 1] = { one.t, one.id }
      tokens, slots = tokens - one.held, slots - 1
    end
  end
  if tokens > 0 or slots > 0 then
    return {}, false
  end
  for _, victim in ipairs(victims) do
    set_control(victim[1], victim[2], PREEMPT)
  end
  return victims, true
end
