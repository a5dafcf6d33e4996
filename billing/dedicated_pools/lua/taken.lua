#!lua
-- taken(gap ms, then field and value of each interval that is stored): forgets those of {p:POOL}ready that will not be
-- extended any more: closed ones, and those whose last heartbeat is too long ago. One that was extended since stays.
-- KEYS: {p:POOL}ready, {p:POOL}ready_open
local intervals, open, gap = KEYS[1], KEYS[2], tonumber(ARGV[1])
local now = clock(0)
local taken = 0
for at = 2, #ARGV, 2 do
  local field, value = ARGV[at], ARGV[at + 1]
  if call('HGET', intervals, field) == value then
    local from, name = string.match(field, '^(%d+) (.*)$')
    local current = call('HGET', open, name) == from
    if current and now - tonumber(string.match(value, '^(%d+)')) > gap then
      call('HDEL', open, name)
      current = false
    end
    if not current then
      taken = taken + call('HDEL', intervals, field)
    end
  end
end
return taken
