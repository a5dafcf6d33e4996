-- A server that starts anew may have lost its last second. What runs then is suspect until its worker has confirmed it by
-- an append; if it is requeued before that, what readers saw may not come again: another epoch.
local function incarnation()
  return call('HGET', KEYS[1], 'incarnation') or '0'
end

local function notice_restart()
  local run = string.match(call('INFO', 'server'), 'run_id:(%x+)')
  local known = call('HGET', KEYS[1], 'run_id')
  if known ~= run then
    call('HSET', KEYS[1], 'run_id', run)
    if known then
      call('HINCRBY', KEYS[1], 'incarnation', 1)
    end
  end
end

local function doubt(t, id)
  local req = key('req', t, id)
  if (call('HGET', req, 'inc') or '0') ~= incarnation() then
    call('HINCRBY', req, 'epoch', 1)
  end
end
