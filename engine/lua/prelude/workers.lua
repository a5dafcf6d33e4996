-- Taking a worker out of the pool.

-- Its fingerprint's largest size, from those that stay.
local function measure(fingerprint)
  local largest = 0
  for _, name in ipairs(call('ZRANGE', P .. 'workers', 0, -1)) do
    local theirs, size = unpack(call('HMGET', P .. 'worker:' .. name, 'fingerprint', 'size'))
    if theirs == fingerprint then
      largest = math.max(largest, number_of(size))
    end
  end
  if largest > 0 then
    call('HSET', KEYS[1], 'size:' .. fingerprint, int(largest))
  else
    call('HDEL', KEYS[1], 'size:' .. fingerprint)
  end
end

-- Requeues at most `budget` of its requests; the worker goes when none is left. Replies how many.
local function dismiss(name, why, budget, deaths_max)
  local requeued = 0
  for _, member in ipairs(call('SMEMBERS', P .. 'claims:' .. name)) do
    if requeued == budget then
      return requeued
    end
    local t, id = split(member)
    if call('HGET', key('req', t, id), 'worker') == name then
      requeue(t, id, why, why == 'lost', deaths_max)
      requeued = requeued + 1
    end
  end
  local fingerprint = call('HGET', P .. 'worker:' .. name, 'fingerprint')
  call('ZREM', P .. 'workers', name)
  call('DEL', P .. 'worker:' .. name, P .. 'claims:' .. name)
  if fingerprint then
    measure(fingerprint)
  end
  return requeued
end
