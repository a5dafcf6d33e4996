-- Whose turn it is: weighted virtual token counters (Sheng et al., "Fairness in Serving Large Language Models", OSDI
-- 2024), one a tenant over all classes, in thousandths of a token of weight 1; and the caps that stop a tenant.
-- A tenant with waiting requests of a class is in act:<class> (eligible, by counter) or in blocked:<class>.
local UNIT = 1000

local function show_counter(t, counter)
  for _, class in ipairs(CLASSES) do
    call('ZADD', P .. 'act:' .. class, 'XX', int(counter), t)
  end
end

-- Charges weighted tokens; what was charged too much before is taken off. Replies the counter.
local function charge(t, cost)
  local tenant = P .. 'ten:' .. t
  local weight, counter, credit = unpack(call('HMGET', tenant, 'weight', 'counter', 'credit'))
  local due = math.ceil(cost * UNIT / fraction_of(weight, 1))
  local paid = math.min(due, number_of(credit))
  counter = number_of(counter) + due - paid
  call('HSET', tenant, 'counter', int(counter), 'credit', int(number_of(credit) - paid))
  show_counter(t, counter)
  return counter
end

-- Prompt tokens that turned out to be in an engine's cache: counters never fall, so the next charges are smaller.
local function refund(t, cost)
  local tenant = P .. 'ten:' .. t
  local weight = fraction_of(call('HGET', tenant, 'weight'), 1)
  call('HINCRBY', tenant, 'credit', int(math.floor(cost * UNIT / weight)))
end

local function wake_workers()
  call('LPUSH', P .. 'wake', '1')
  call('LTRIM', P .. 'wake', 0, 63)
end

-- Being idle, starved or stopped by a cap earns nothing: the counter rises to what the class last served.
local function become_eligible(t, class)
  local tenant = P .. 'ten:' .. t
  local counter = number_of(call('HGET', tenant, 'counter'))
  local served = number_of(call('HGET', KEYS[1], 'v:' .. class))
  if served > counter then
    counter = served
    call('HSET', tenant, 'counter', int(counter), 'credit', 0)
    show_counter(t, counter)
  end
  call('ZADD', P .. 'act:' .. class, int(counter), t)
  wake_workers()
end

-- How many more tokens in flight the tenant's caps allow; -1 where one more request is one too many.
local function left_under_cap(t)
  local slots, most, tokens = unpack(call('HMGET', P .. 'ten:' .. t, 'slots_max', 'tokens_max', 'tokens'))
  if slots and call('SCARD', P .. 'run:' .. t) >= number_of(slots) then
    return -1
  end
  return most and number_of(most) - number_of(tokens) or math.huge
end

local function is_at_cap(t)
  return left_under_cap(t) < 1
end

local function block(t, class)
  if call('ZREM', P .. 'act:' .. class, t) == 1 then
    call('SADD', P .. 'blocked:' .. class, t)
  end
end

local function block_at_cap(t)
  if is_at_cap(t) then
    for _, class in ipairs(CLASSES) do
      block(t, class)
    end
  end
end

-- Where a tenant stands that has a request waiting in this class. Replies whether a cap stops it there.
local function enter_class(t, class)
  if call('ZSCORE', P .. 'act:' .. class, t) then
    wake_workers()
    return false
  elseif call('SISMEMBER', P .. 'blocked:' .. class, t) == 1 then
    return true
  elseif is_at_cap(t) then
    call('SADD', P .. 'blocked:' .. class, t)
    return true
  end
  become_eligible(t, class)
  return false
end

-- Under its caps again, perhaps.
local function unblock(t)
  if not is_at_cap(t) then
    for _, class in ipairs(CLASSES) do
      if call('SREM', P .. 'blocked:' .. class, t) == 1 then
        become_eligible(t, class)
      end
    end
  end
end

-- What a running request holds counts in its tenant's and its class's sum, once.
local function hold(t, id, class, need)
  call('HSET', key('req', t, id), 'held', int(need))
  call('HINCRBY', P .. 'ten:' .. t, 'tokens', int(need))
  call('HINCRBY', KEYS[1], 'used:' .. class, int(need))
  block_at_cap(t)
end

local function drop_hold(t, id)
  local class, held = unpack(call('HMGET', key('req', t, id), 'class', 'held'))
  if number_of(held) > 0 then
    call('HSET', key('req', t, id), 'held', 0)
    call('HINCRBY', P .. 'ten:' .. t, 'tokens', int(-number_of(held)))
    call('HINCRBY', KEYS[1], 'used:' .. class_of(class), int(-number_of(held)))
  end
  unblock(t)
end
