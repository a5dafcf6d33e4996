-- What the registered workers of a fingerprint can hold: the largest of them, and all together.
local WORKERS_MAX = 2000

local function measure(fingerprint)
  local largest, all = 0, 0
  for _, name in ipairs(call('ZRANGE', P .. 'workers', 0, WORKERS_MAX - 1)) do
    local theirs, size = unpack(call('HMGET', P .. 'worker:' .. name, 'fingerprint', 'size'))
    if theirs == fingerprint then
      largest, all = math.max(largest, number_of(size)), all + number_of(size)
    end
  end
  if largest > 0 then
    call('HSET', KEYS[1], 'size:' .. fingerprint, int(largest), 'pool:' .. fingerprint, int(all))
  else
    call('HDEL', KEYS[1], 'size:' .. fingerprint, 'pool:' .. fingerprint)
  end
end
