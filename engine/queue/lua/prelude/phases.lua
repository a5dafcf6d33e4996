-- A request's life: `kind:ms` of each phase, in the order in which they began; ms since it was accepted, by Redis'
-- clock. Once there are as many as may be, the last one gives way to the next, so that its end is always there. The
-- kinds: PhaseKind in billing/usage.py.
local PHASES_MAX, PHASES_BYTES = 16, 512

-- Those that a script wrote; a worker may have written others.
local function known_phases(phases)
  return phases and #phases <= PHASES_BYTES and not find(phases, '[^%l%d: ]') and phases or ''
end

local function with_phase(phases, accepted, kind)
  phases = known_phases(phases)
  local _, count = string.gsub(phases, ':', ':')
  if count >= PHASES_MAX then
    phases = string.match(phases, '^(.*) ') or ''
  end
  local ms = math.max(0, NOW - number_of(accepted))
  return phases .. (phases == '' and '' or ' ') .. kind .. ':' .. int(ms)
end

local function begin_phase(t, id, kind)
  local req = key('req', t, id)
  local phases, accepted = unpack(call('HMGET', req, 'phases', 'accepted'))
  call('HSET', req, 'phases', with_phase(phases, accepted, kind))
end

-- What one in line waits for, once that is known: its tenant's cap, or room. It may change at every look, so half of
-- the phases are left to what happens to it.
local function note_wait(t, id, phases, kind)
  phases = known_phases(phases)
  local _, count = string.gsub(phases, ':', ':')
  if count < PHASES_MAX / 2 and string.match(phases, '(%l+):%d+$') ~= kind then
    begin_phase(t, id, kind)
  end
end
