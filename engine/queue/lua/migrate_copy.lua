#!lua flags=allow-oom
-- migrate_copy(now, t, id, hop, after, keep s, then each entry: its stream id, how many arguments follow, its fields
-- and values): a part of the log of a request that comes from another pool, behind offset `after`. Replies the head of
-- what has been copied; -1 where the request has arrived.
local t, id, hop, after = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local log, at = key('log', t, id), 7
local status, here = unpack(call('HMGET', key('req', t, id), 'status', 'hop'))
if status and (status ~= 'moved' or number_of(here) >= hop) then
  return -1
end
if after == 0 then
  call('DEL', log) -- also what is left of an earlier stay
end
if last_offset(log) == after then
  while ARGV[at] do
    local behind = at + 2 + tonumber(ARGV[at + 1])
    call('XADD', log, ARGV[at], unpack(ARGV, at + 2, behind - 1))
    at = behind
  end
  call('EXPIRE', log, ARGV[6])
end
return last_offset(log)
