-- Taking a worker out of the pool.

-- Requeues at most `budget` of its requests; the worker goes when none is left. Replies how many.
local function dismiss(name, why, budget, deaths_max)
  local requeued, worker, crowd = 0, P .. 'worker:' .. name, nil
  if why == 'lost' then
    call('HSETNX', worker, 'crowd', math.max(1, call('SCARD', P .. 'fresh:' .. name)))
    crowd = tonumber(call('HGET', worker, 'crowd'))
  end
  for _, member in ipairs(call('SMEMBERS', P .. 'claims:' .. name)) do
    if requeued == budget then
      return requeued
    end
    local t, id = split(member)
    if call('HGET', key('req', t, id), 'worker') == name then
      requeue(t, id, why, crowd, deaths_max)
      requeued = requeued + 1
    end
  end
  local fingerprint = call('HGET', worker, 'fingerprint')
  call('ZREM', P .. 'workers', name)
  call('DEL', worker, P .. 'claims:' .. name, P .. 'bigs:' .. name, P .. 'fresh:' .. name, P .. 'suspects:' .. name)
  if fingerprint then
    measure(fingerprint)
  end
  return requeued
end
