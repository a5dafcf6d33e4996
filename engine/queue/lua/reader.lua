#!lua flags=allow-oom
--: args: now_ms:int, tenant:str, id:str, gateway:str?, state:str, readers_max:int, gateway_lease_ms:int
--: reply: status:str, epoch:int, head:int, n:int, control:int, worker:str, deadline_ms:int, first:int, dest:str,
--:   priority:str, following:bool, body_hash:str, told:str, hop:int?, ordered_ms:int?, seal:bytes
-- How a gateway's readers stand: `state` is reading, stuck or gone. The request is parked while all of its gateways are
-- stuck, unless the reaper gave them up: then one has to read first. Replies the view; nil for an unknown id.
local t, id, gateway, state = args.tenant, args.id, args.gateway, args.state
local req, readers, member = key('req', t, id), key('rd', t, id), member_of(t, id)
local following = false

local function register()
  if call('HEXISTS', readers, gateway) == 0 and call('HLEN', readers) >= args.readers_max then
    return
  end
  following = true
  call('HSET', readers, gateway, state)
  call('SADD', P .. 'reads:' .. gateway, member)
  call('ZADD', P .. 'gws', 'NX', int(NOW + args.gateway_lease_ms), gateway)
  if state == 'reading' then
    call('ZREM', P .. 'unread', member)
  end
end

local function all_stuck()
  local states = call('HLEN', readers) <= GATEWAYS_MAX and call('HVALS', readers) or {}
  for _, value in ipairs(states) do
    if value ~= 'stuck' then
      return false
    end
  end
  return #states > 0
end

local status = call('HGET', req, 'status')
if not status then
  return nil
end
if gateway and state == 'gone' then
  drop_reader(t, id, gateway)
  call('SREM', P .. 'reads:' .. gateway, member)
elseif gateway and status ~= 'ended' and status ~= 'moved' then
  register()
end
if following and state == 'reading' then
  call('HDEL', req, 'given_up')
end
if gateway and all_stuck() then
  if call('HEXISTS', req, 'given_up') == 0 then
    park(t, id)
  end
elseif gateway and state == 'reading' then
  unpark(t, id)
end
publish()

-- stylua: ignore
local record = call('HMGET', req, 'status', 'epoch', 'o', 'n', 'control', 'worker', 'deadline', 'dest', 'class',
  'body_hash', 'hop', 'ordered', 'seal', 'told')
local head = number_of(record[3])
local oldest = call('XRANGE', key('log', t, id), '-', '+', 'COUNT', 1)[1]
local view = {
  status = record[1],
  epoch = number_of(record[2]),
  head = head,
  n = number_of(record[4]),
  control = number_of(record[5]),
  worker = record[6],
  deadline_ms = number_of(record[7]),
  first = oldest and number_of(string.match(oldest[1], '^%d+')) or head + 1,
  dest = record[8] or '',
  priority = record[9],
  following = following,
  body_hash = record[10] or '',
  told = record[14] or '',
  hop = whole_of(record[11]),
  ordered_ms = whole_of(record[12]),
}
return { cmsgpack.pack(view), record[13] or '' }
