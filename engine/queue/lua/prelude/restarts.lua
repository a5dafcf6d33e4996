-- A server that starts anew may have lost its last second. What ran then is suspect until its worker has confirmed it
-- by an append; if it is requeued before that, what readers saw may not come again: another epoch. So it is with what
-- waits: a worker may have had it in the time that is lost.
local RESTART_GRACE_MS, LEASES_MAX = 3000, 2000

local function incarnation()
  return int(number_of(call('HGET', KEYS[1], 'incarnation')))
end

-- Nobody could renew a lease while the server was away: what still runs gets the time to say so.
local function extend_leases()
  for _, leases in ipairs({ P .. 'workers', P .. 'gws' }) do
    for _, name in ipairs(call('ZRANGE', leases, 0, LEASES_MAX - 1)) do
      call('ZADD', leases, 'GT', int(NOW + RESTART_GRACE_MS), name)
    end
  end
end

local function notice_restart()
  local run = string.match(call('INFO', 'server'), 'run_id:(%x+)')
  local known, order = unpack(call('HMGET', KEYS[1], 'run_id', 'order'))
  if known ~= run then
    call('HSET', KEYS[1], 'run_id', run)
    if known then
      call('HINCRBY', KEYS[1], 'incarnation', 1)
      call('HSET', KEYS[1], 'restart_order', order or 0)
      extend_leases()
    end
  end
end

-- Which memory the `ended` stream is in: since when there is one, and how often the server started anew since. One that
-- was emptied, or may have lost its tail, is another memory.
local function memory_of_ends()
  local since = whole_of(call('HGET', KEYS[1], 'ended_since'))
  if not since then
    since = NOW_US
    call('HSET', KEYS[1], 'ended_since', int(since))
  end
  return int(since) .. '.' .. incarnation()
end

-- Nobody has confirmed it since the server started anew.
local function renew_epoch(t, id)
  local req, now = key('req', t, id), incarnation()
  if (call('HGET', req, 'inc') or '0') ~= now then
    call('HINCRBY', req, 'epoch', 1)
    call('HSET', req, 'inc', now)
  end
end
