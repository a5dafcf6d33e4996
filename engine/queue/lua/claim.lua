#!lua flags=allow-oom
--: args: now_ms:int, worker:str, number:int, nonce:str, fingerprint:str, slots:int, kv_tokens:int,
--:   prefill_tokens:int, picks_max:int, deaths_max:int, prompt_weight:float, delta_tokens:float, age_standard_ms:int,
--:   age_bulk_ms:int, lowest:str
--: reply: retry_ms:int, rows:[Raw], victims:[Raw], parts:[bytes]
-- Classes in order, in a class the tenant whose turn it is; nothing of a class below the lowest. Replies the rows to
-- run, with the input and the tokens of each beside them, and what the worker shall give back for interactive work.
-- The picks of a call are stored and repeated for the same call number, so a lost reply strands nothing.
local name, number, fingerprint = args.worker, args.number, args.fingerprint
local kv, prefill = args.kv_tokens, args.prefill_tokens
local picks_max, delta = math.min(args.slots, args.picks_max), args.delta_tokens * UNIT
local AGES = { standard = args.age_standard_ms, bulk = args.age_bulk_ms }
local LOWEST = args.lowest
local PACE_MS_MAX = 60000 -- a gap longer than this is a clock that jumped, or nobody was there
local NOT_FITTING_RETRY_MS, AGED_EVERY, LARGE_PREFILLS_MAX = 50, 8, 2
local worker = P .. 'worker:' .. name
local picks, victims, unfit, retry, wanted, large_left = {}, {}, false, math.huge, math.huge, 0
local fresh, trial = 0, math.huge -- how many here have logged nothing yet, and how many may, because of suspects
local held = 0 -- how many are here
local restart_order -- what was in line by then waited when the server last started anew; read at the first pick

local ROW = {
  'ck',
  'class',
  'cn',
  'epoch',
  'n',
  'o',
  'raw',
  'visible',
  'granted',
  'control',
  'deaths',
  'claimed',
  'first',
  'cached',
  'recomputed',
  'covered',
  'phases',
}

local function list_of(value)
  return type(value) == 'table' and value or {}
end

local function row_of(pick)
  local t, id, ck = unpack(list_of(pick))
  if not (t and id and ck) then
    return nil
  end
  local values = call('HMGET', key('req', t, id), unpack(ROW))
  if values[1] ~= ck then
    return nil
  end
  local row = { tenant = t, id = id, ck = ck, class = values[2] or '' }
  for at = 3, #ROW - 1 do
    row[ROW[at]] = number_of(values[at])
  end
  row.phases = known_phases(values[#ROW])
  return row
end

local function reply(stored, retry_ms, going)
  local rows, parts = {}, {}
  for at, pick in ipairs(stored) do
    local row = at <= CLAIMS_READ_MAX and row_of(pick)
    if row then
      rows[#rows + 1] = row
      parts[#parts + 1] = call('GET', key('in', row.tenant, row.id)) or ''
      parts[#parts + 1] = call('GET', key('tok', row.tenant, row.id)) or ''
    end
  end
  return { cmsgpack.pack({ retry_ms = retry_ms, rows = rows, victims = going }), unpack(parts) }
end

-- What of this worker's room lower classes, and other tenants, leave free for those who reserved it.
local size, whole = 0, 0
local reserve, used, promised, in_flight = {}, {}, {}, {}

local function read_reserves()
  size = number_of(call('HGET', worker, 'size'))
  whole = number_of(call('HGET', KEYS[1], 'pool:' .. fingerprint))
  for _, class in ipairs(CLASSES) do
    local values = call('HMGET', KEYS[1], 'reserve:' .. class, 'used:' .. class)
    reserve[class], used[class] = number_of(values[1]), number_of(values[2])
  end
  local pairs_ = call('HGETALL', P .. 'reserves')
  for at = 1, #pairs_, 2 do
    promised[pairs_[at]] = number_of(pairs_[at + 1])
    in_flight[pairs_[at]] = number_of(call('HGET', P .. 'ten:' .. pairs_[at], 'tokens'))
  end
end

local function kept_from(t, class)
  local kept = 0
  for _, higher in ipairs(CLASSES) do
    if higher == class then
      break
    end
    kept = kept + math.max(0, reserve[higher] - used[higher])
  end
  for tenant, tokens in pairs(promised) do
    if tenant ~= t then
      kept = kept + math.max(0, tokens - in_flight[tenant])
    end
  end
  return kept > 0 and kept * size / math.max(1, whole) or 0
end

-- One prompt may exceed the prefill budget, else it would never run.
local function fits(found)
  local enough = found.need <= kv - kept_from(found.t, found.class)
  if found.class == 'interactive' and not enough then
    wanted = math.min(wanted, found.need + kept_from(found.t, found.class))
  end
  enough = enough
    and prefill > 0
    and (not found.large or large_left > 0)
    and fresh < share_of(found.deaths, found.crowd)
    and (held == 0 or not is_alone(found.deaths, found.crowd))
  unfit = unfit or not enough
  return enough
end

-- True while the worker that has its tokens cached may still come for it.
local function is_kept_warm(found)
  local is_wrong = found.warm_until > NOW + WARM_MS_MAX.bulk -- longer than anybody keeps: the clock went back
  if found.warm == '' or found.warm == name or found.warm_until <= NOW or is_wrong then
    return false
  end
  local lease = call('ZSCORE', P .. 'workers', found.warm)
  local kept = lease and number_of(lease) > NOW
  retry = kept and math.min(retry, found.warm_until - NOW) or retry
  return kept
end

local function judge(found, left)
  local doomed = bit.band(found.control, CANCEL) ~= 0 or is_poison(found.deaths, found.crowd, args.deaths_max)
  if found.fingerprint ~= fingerprint or found.deadline <= NOW or doomed or is_kept_out(found.t, found.order) then
    return 'other'
  elseif is_kept_warm(found) then
    return 'other'
  elseif found.need > left then
    return 'cap'
  end
  return not fits(found) and 'room' or nil
end

local lines = {}
local starts = {}

local function next_in(class)
  lines[class] = lines[class] or open_line(class, starts[class], judge, fits)
  return first_of(lines[class], delta)
end

local function in_class_order()
  for at, class in ipairs(CLASSES) do
    local tenant = next_in(class)
    if tenant then
      return tenant, at
    elseif class == LOWEST then
      return nil
    end
  end
end

-- Of the classes below one that has work, the most overdue; at most one pick of eight.
local function out_of_class_order(above)
  local best, most = nil, 1
  for at = above + 1, LOWEST == 'bulk' and #CLASSES or above do
    local class = CLASSES[at]
    local head = call('ZRANGE', P .. 'age:' .. class, 0, 0, 'WITHSCORES')
    local overdue = head[2] and (NOW - fraction_of(head[2], 0) / 1000) / AGES[class] or 0
    if overdue > most then
      local tenant = next_in(class)
      if tenant then
        best, most = tenant, overdue
      end
    end
  end
  return best
end

-- The counter of the class follows who is served; prompt tokens are charged on the first claim only.
local function account(found, counter)
  local served = 'v:' .. found.class
  if counter > number_of(call('HGET', KEYS[1], served)) then
    call('HSET', KEYS[1], served, int(counter))
  end
  hold(found.t, found.id, found.class, found.need)
  used[found.class] = used[found.class] + found.need
  in_flight[found.t] = in_flight[found.t] and in_flight[found.t] + found.need
  return found.cn == 0 and charge(found.t, args.prompt_weight * found.prompt) or counter
end

-- How many may be fresh beside a suspect, itself counted.
local function fresh_beside(deaths, crowd)
  return is_alone(deaths, crowd) and 0 or share_of(deaths, crowd)
end

local function take(found)
  local t, id = found.t, found.id
  local req, ck = key('req', t, id), args.nonce .. '-' .. (#picks + 1)
  if #picks == 0 then
    notice_restart()
    restart_order = number_of(call('HGET', KEYS[1], 'restart_order'))
  end
  if found.order <= restart_order then
    renew_epoch(t, id)
  end
  leave_line(t, id, found.class)
  call('HSET', req, 'status', 'running', 'ck', ck, 'worker', name, 'taken', int(NOW), 'inc', incarnation())
  begin_phase(t, id, 'claimed')
  call('SADD', P .. 'run:' .. t, id)
  call('SADD', P .. 'claims:' .. name, member_of(t, id))
  if call('HINCRBY', req, 'cn', 1) == 1 then
    call('HSET', req, 'claimed', int(NOW))
    log_event(t, id, 'running')
  else
    call('HINCRBY', req, 'recomputed', found.prompt + found.n)
  end
  try_out(t, id, name, found.deaths)
  fresh, held, trial = fresh + 1, held + 1, math.min(trial, fresh_beside(found.deaths, found.crowd))
  if found.large then
    call('SADD', P .. 'bigs:' .. name, member_of(t, id))
    large_left = large_left - 1
  end
  picks[#picks + 1] = { t, id, ck }
  kv, prefill = kv - found.need, prefill - found.prompt - found.n
end

local function serve(tenant)
  local found = tenant.head
  take(found)
  local counter = account(found, tenant.counter)
  for _, line in pairs(lines) do
    was_served(line, found.t, counter)
  end
end

local function read_trial()
  fresh = call('SCARD', P .. 'fresh:' .. name)
  held = call('SCARD', P .. 'claims:' .. name)
  for at, member in ipairs(call('SMEMBERS', P .. 'suspects:' .. name)) do
    if at > CLAIMS_READ_MAX then
      break
    end
    local deaths, crowd = unpack(call('HMGET', key('req', split(member)), 'deaths', 'crowd'))
    trial = math.min(trial, fresh_beside(number_of(deaths), number_of(crowd)))
  end
end

-- Interactive work that waits for nothing but what lower work holds on this worker gets it; nothing lower is taken
-- meanwhile. Without slots, what it waits for is one of them.
local function room_is_coming()
  local coming = false
  local first = picks_max == 0 and next_in('interactive')
  if first then
    note_wait(first.t, first.head.id, first.head.phases, 'room')
    victims = make_room(name, 0, 1)
  elseif wanted < math.huge then
    victims, coming = make_room(name, wanted - kv, 0)
  end
  return coming
end

local function pick_all()
  local unaged, asked = number_of(call('HGET', KEYS[1], 'unaged')), picks_max == 0
  if picks_max == 0 then
    room_is_coming()
  end
  while #picks < picks_max and fresh < trial do
    local tenant, at = in_class_order()
    if (at or 2) > 1 and not asked then
      asked = true
      if room_is_coming() then
        break
      end
    end
    if not tenant then
      break
    end
    local aged = unaged >= AGED_EVERY - 1 and out_of_class_order(at)
    unaged = aged and 0 or math.min(unaged + 1, AGED_EVERY - 1)
    serve(aged or tenant)
  end
  if #picks > 0 then
    call('HSET', KEYS[1], 'unaged', unaged)
  end
end

-- Where nothing was found among those read, the next call reads on; after a pick it begins anew. A call without slots
-- takes nothing, so it says nothing about where to begin.
local function remember_starts()
  local found, unread = {}, false
  if picks_max == 0 then
    return false
  end
  for class, line in pairs(lines) do
    found[class] = #picks == 0 and next_start(line) or { 0, 0 }
    unread = unread or found[class][1] + found[class][2] > 0
  end
  call('HSET', worker, 'starts', cmsgpack.pack(found))
  return unread
end

-- ms between two requests taken while others waited: what enqueue predicts waits from. Each of them counts: many that
-- came free together after a while weigh more than the one behind them.
local function keep_pace()
  local left = 0
  for _, class in ipairs(CLASSES) do
    left = left + call('ZCARD', P .. 'age:' .. class)
  end
  local last, busy, pace = unpack(call('HMGET', KEYS[1], 'taken_at', 'busy', 'pace'))
  if busy == '1' and last then
    local gap = math.max(0, math.min(NOW - number_of(last), PACE_MS_MAX)) / #picks
    local kept = pace and 0.8 ^ #picks or 0
    call(
      'HSET',
      KEYS[1],
      'pace',
      string.format('%.3f', kept * math.min(fraction_of(pace, 0), PACE_MS_MAX) + (1 - kept) * gap)
    )
  end
  call('HSET', KEYS[1], 'taken_at', int(NOW), 'busy', left > 0 and '1' or '0')
end

local lease = call('ZSCORE', P .. 'workers', name)
if not lease or number_of(lease) <= NOW then
  return reply({}, 0, {})
end
local last, stored, begin = unpack(call('HMGET', worker, 'call', 'answer', 'starts'))
if number == number_of(last) and stored then
  local answer = unpacked(stored)
  return reply(list_of(answer[2]), fraction_of(answer[1], 0), list_of(answer[3]))
elseif number < number_of(last) then
  return reply({}, 0, {})
end
starts = begin and unpacked(begin) or {}
large_left = LARGE_PREFILLS_MAX - call('SCARD', P .. 'bigs:' .. name)
read_reserves()
read_trial()
local unread = fresh >= trial
if not unread then
  pick_all()
  unread = remember_starts()
end
retry = (unfit or unread) and math.min(retry, NOT_FITTING_RETRY_MS) or retry
retry = #picks == 0 and retry < math.huge and retry or 0
call('HSET', worker, 'call', int(number), 'answer', cmsgpack.pack({ retry, picks, victims }))
if #picks > 0 then
  keep_pace()
end
publish()
return reply(picks, retry, victims)
