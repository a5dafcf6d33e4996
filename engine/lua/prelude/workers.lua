-- Taking a worker out of the pool.

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
  call('DEL', P .. 'worker:' .. name, P .. 'claims:' .. name, P .. 'bigs:' .. name)
  if fingerprint then
    measure(fingerprint)
  end
  return requeued
end
