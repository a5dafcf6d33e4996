#!lua flags=allow-oom
-- reader(now, t, id, gateway or '', reading | stuck | gone, readers max, lease ms): how a gateway's readers stand. The
-- request is parked while all of its gateways are stuck, unless the reaper gave them up: then one has to read first.
-- Replies the view.
local t, id, gateway, state = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local req, readers, member = key('req', t, id), key('rd', t, id), member_of(t, id)
local following = 0

local function register()
  if call('HEXISTS', readers, gateway) == 0 and call('HLEN', readers) >= tonumber(ARGV[6]) then
    return
  end
  following = 1
  call('HSET', readers, gateway, state)
  call('SADD', P .. 'reads:' .. gateway, member)
  call('ZADD', P .. 'gws', 'NX', int(NOW + tonumber(ARGV[7])), gateway)
  if state == 'reading' then
    call('ZREM', P .. 'unread', member)
  end
end

local function all_stuck()
  local states = call('HVALS', readers)
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
if gateway ~= '' and state == 'gone' then
  drop_reader(t, id, gateway)
  call('SREM', P .. 'reads:' .. gateway, member)
elseif gateway ~= '' and status ~= 'ended' and status ~= 'moved' then
  register()
end
if following == 1 and state == 'reading' then
  call('HDEL', req, 'given_up')
end
if gateway ~= '' and all_stuck() then
  if call('HEXISTS', req, 'given_up') == 0 then
    park(t, id)
  end
elseif gateway ~= '' and state == 'reading' then
  unpark(t, id)
end
publish()

local values = call('HMGET', req, 'status', 'epoch', 'o', 'n', 'control', 'worker', 'deadline', 'dest', 'class')
for at = 2, 5 do
  values[at] = tonumber(values[at])
end
values[7], values[8] = tonumber(values[7]), values[8] or ''
local oldest = call('XRANGE', key('log', t, id), '-', '+', 'COUNT', 1)[1]
values[10] = oldest and tonumber(string.match(oldest[1], '^%d+')) or values[3] + 1
values[11] = following
for _, value in ipairs(call('HMGET', req, 'body_hash', 'hop', 'ordered', 'seal')) do
  values[#values + 1] = value
end
return values
