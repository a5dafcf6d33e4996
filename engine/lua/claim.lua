#!lua flags=allow-oom
-- claim(now, worker, call number, nonce, fingerprint, slots, KV tokens, prefill tokens, picks max, deaths max,
-- scan max): classes in order, first come first served inside. Replies {retry ms, rows}.
-- The picks of a call are stored and repeated for the same call number, so a lost reply strands nothing. Claim tokens
-- derive from the caller's nonce: Lua's own random numbers are the same in every script.
local name, number, nonce, fingerprint = ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
local slots, kv, prefill = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local picks_max, deaths_max, scan_max = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local NOT_FITTING_RETRY_MS, PAGE = 50, 16
local worker = P .. 'worker:' .. name
local picks, scanned, unfit = {}, 0, false

local ROW = { 'ck', 'cn', 'epoch', 'n', 'o', 'raw', 'visible', 'granted', 'control', 'deaths', 'claimed', 'first',
  'cached', 'recomputed', 'covered' }

local function row_of(pick)
  local t, id = pick[1], pick[2]
  local values = call('HMGET', key('req', t, id), unpack(ROW))
  if values[1] ~= pick[3] then
    return nil
  end
  for at = 2, #values do
    values[at] = tonumber(values[at])
  end
  local tokens = call('GET', key('tok', t, id)) or ''
  return { t, id, values, call('GET', key('in', t, id)), tokens }
end

local function reply(stored, retry)
  local rows = {}
  for _, pick in ipairs(stored) do
    rows[#rows + 1] = row_of(pick)
  end
  return { retry, rows }
end

local function take(t, id, class, prompt, n)
  local req, ck = key('req', t, id), nonce .. '-' .. (#picks + 1)
  leave_line(t, id, class)
  call('HSET', req, 'status', 'running', 'ck', ck, 'worker', name, 'warm', name)
  call('SADD', P .. 'run:' .. t, id)
  call('SADD', P .. 'claims:' .. name, member_of(t, id))
  if call('HINCRBY', req, 'cn', 1) == 1 then
    call('HSET', req, 'claimed', int(NOW))
    log_event(t, id, 'running')
  else
    call('HINCRBY', req, 'recomputed', prompt + n)
  end
  picks[#picks + 1] = { t, id, ck }
end

-- True where the request was taken. One prompt may exceed the prefill budget, else it would never run.
local function consider(member, class)
  local t, id = split(member)
  local values = call('HMGET', key('req', t, id), 'status', 'fingerprint', 'prompt', 'n', 'granted', 'deadline',
    'control', 'deaths')
  if values[1] ~= 'queued' then
    leave_line(t, id, class)
    return true
  end
  local prompt, n = tonumber(values[3]), tonumber(values[4])
  local doomed = bit.band(tonumber(values[7]), CANCEL) ~= 0 or tonumber(values[8]) >= deaths_max
  if values[2] ~= fingerprint or tonumber(values[6]) <= NOW or doomed then
    return false
  end
  local need = prompt + math.max(n, tonumber(values[5]))
  if need > kv or prefill <= 0 then
    unfit = true
    return false
  end
  take(t, id, class, prompt, n)
  kv, prefill = kv - need, prefill - prompt - n
  return true
end

local function scan(class)
  local at = 0
  while #picks < math.min(slots, picks_max) and scanned < scan_max do
    local page = call('ZRANGE', P .. 'age:' .. class, at, at + PAGE - 1)
    if #page == 0 then
      return
    end
    for _, member in ipairs(page) do
      if #picks >= math.min(slots, picks_max) then
        return
      end
      scanned = scanned + 1
      if not consider(member, class) then
        at = at + 1
      end
    end
  end
end

-- ms between two requests taken while others waited: what enqueue predicts waits from.
local function keep_pace()
  local left = 0
  for _, class in ipairs(CLASSES) do
    left = left + call('ZCARD', P .. 'age:' .. class)
  end
  local last, busy, pace = unpack(call('HMGET', KEYS[1], 'taken_at', 'busy', 'pace'))
  if busy == '1' and last then
    local gap = (NOW - tonumber(last)) / #picks
    call('HSET', KEYS[1], 'pace', string.format('%.3f', pace and 0.8 * tonumber(pace) + 0.2 * gap or gap))
  end
  call('HSET', KEYS[1], 'taken_at', int(NOW), 'busy', left > 0 and '1' or '0')
end

local lease = call('ZSCORE', P .. 'workers', name)
if not lease or tonumber(lease) <= NOW then
  return { 0, {} }
end
local last, stored = unpack(call('HMGET', worker, 'call', 'answer'))
if number == number_of(last) and stored then
  local answer = cmsgpack.unpack(stored)
  return reply(answer[2], answer[1])
elseif number < number_of(last) then
  return { 0, {} }
end
for _, class in ipairs(CLASSES) do
  scan(class)
end
local retry = unfit and #picks == 0 and NOT_FITTING_RETRY_MS or 0
call('HSET', worker, 'call', int(number), 'answer', cmsgpack.pack({ retry, picks }))
if #picks > 0 then
  keep_pace()
end
publish()
return reply(picks, retry)
