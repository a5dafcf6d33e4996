#!lua flags=allow-oom
--: args: now_ms:int
--: reply: memory:str, ms:str, sequence:str
-- In which memory the `ended` stream is, and how far the biller is in it: the id (`ms` and `sequence`, as text: either
-- may be past 2^53) below which it has acknowledged everything.
local stream = P .. 'ended'
notice_restart()
local memory, ms, sequence = memory_of_ends(), '0', '0'
local groups = redis.pcall('XINFO', 'GROUPS', stream)
for _, group in ipairs(groups.err and {} or groups) do
  local facts = {}
  for at = 1, #group, 2 do
    facts[group[at]] = group[at + 1]
  end
  if facts.name == 'biller' then
    local pending = call('XPENDING', stream, 'biller')
    ms, sequence = string.match(pending[1] > 0 and pending[2] or facts['last-delivered-id'], '^(%d+)-(%d+)$')
    sequence = pending[1] > 0 and sequence or int(number_of(sequence) + 1)
  end
end
return cmsgpack.pack({ memory = memory, ms = ms, sequence = sequence })
