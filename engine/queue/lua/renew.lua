#!lua flags=allow-oom
-- renew(now, worker, age of the running step ms, age max ms, lease ms, info): keeps the lease of a worker whose engine
-- moves. Replies {alive, {t, id, flags}...}.
local name, age, age_max = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local worker = P .. 'worker:' .. name
local reply = { 0, {} }
if call('ZSCORE', P .. 'workers', name) and age < age_max then
  reply[1] = 1
  call('ZADD', P .. 'workers', int(NOW + tonumber(ARGV[5])), name)
  call('HSET', worker, 'info', ARGV[6])
  call('HSET', KEYS[1], 'seen:' .. call('HGET', worker, 'fingerprint'), int(NOW))
end
if call('ZSCORE', P .. 'workers', name) then
  call('HSET', worker, 'hung', age < age_max and '0' or '1')
end
for _, member in ipairs(call('SMEMBERS', P .. 'claims:' .. name)) do
  local t, id = split(member)
  local control = number_of(call('HGET', key('req', t, id), 'control'))
  if control ~= 0 then
    table.insert(reply[2], { t, id, control })
  end
end
return reply
