-- Taking a worker out of the pool.
local LOOKED_AT_MAX = 500 -- claims, of all workers of one call
local looked_at = 0
local left_without = {} -- fingerprints of workers that are gone; measure() is called with them at the end

-- How many requests of a shape it holds, counted once: it may be dismissed in several calls.
local function shaped_at(name)
  local worker = P .. 'worker:' .. name
  local known = call('HGET', worker, 'shaped')
  if known then
    return number_of(known)
  end
  local shaped = 0
  for at, member in ipairs(call('SMEMBERS', P .. 'claims:' .. name)) do
    if at > LOOKED_AT_MAX then
      break
    end
    shaped = shaped + call('HEXISTS', key('req', split(member)), 'shaped')
  end
  call('HSET', worker, 'shaped', shaped)
  return shaped
end

-- Requeues at most `budget` of its requests; the worker goes when none is left. Replies how many. A claim that is not
-- the worker's, which somebody made up, is dropped, as is one whose request cannot be requeued.
local function dismiss(name, why, budget, deaths_max)
  local claims = P .. 'claims:' .. name
  local requeued, worker, crowd = 0, P .. 'worker:' .. name, nil
  local shaped = why == 'lost' and call('HGET', worker, 'hung') == '1' and shaped_at(name) or 0
  if shaped == 0 and why == 'lost' then
    call('HSETNX', worker, 'crowd', math.max(1, call('SCARD', P .. 'fresh:' .. name)))
    crowd = number_of(call('HGET', worker, 'crowd'))
  end
  local function give_back(t, id)
    requeue(t, id, why, crowd, deaths_max)
    if shaped > 0 and call('HEXISTS', key('req', t, id), 'shaped') == 1 then
      count_hang(t, id, shaped, deaths_max)
    end
    requeued = requeued + 1
  end
  if looked_at >= LOOKED_AT_MAX then
    return requeued
  end
  for _, member in ipairs(call('SMEMBERS', claims)) do
    if requeued == budget or looked_at >= LOOKED_AT_MAX then
      return requeued
    end
    looked_at = looked_at + 1
    local t, id = split(member)
    if call('HGET', key('req', t, id), 'worker') ~= name or not pcall(give_back, t, id) then
      call('SREM', claims, member)
    end
  end
  local fingerprint = call('HGET', worker, 'fingerprint')
  call('ZREM', P .. 'workers', name)
  call('DEL', worker, claims, P .. 'bigs:' .. name, P .. 'fresh:' .. name, P .. 'suspects:' .. name)
  if fingerprint then
    left_without[fingerprint] = true
  end
  return requeued
end
