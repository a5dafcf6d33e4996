#!lua
--: args: gap_ms_max:int, stored:[bytes]
--: reply: int
-- Forgets those intervals of {p:POOL}ready that will not be extended any more: closed ones, and those whose last
-- heartbeat is too long ago. One that was extended since stays. `stored`: field and value of each, one by one.
-- KEYS: {p:POOL}ready, {p:POOL}ready_open
local intervals, open = KEYS[1], KEYS[2]
local now = clock(0)
local taken = 0
for at = 1, #args.stored, 2 do
  local field, value = args.stored[at], args.stored[at + 1]
  if call('HGET', intervals, field) == value then
    local from, name = string.match(field, '^(%d+) (.*)$')
    local current = call('HGET', open, name) == from
    if current and now - number_of(string.match(value, '^(%d+)')) > args.gap_ms_max then
      call('HDEL', open, name)
      current = false
    end
    if not current then
      taken = taken + call('HDEL', intervals, field)
    end
  end
end
return taken
