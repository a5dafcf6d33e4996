#!lua flags=allow-oom
--: args: now_ms:int, id:str, cost_nano:int, input_tokens:int, output_tokens:int, keep_ms:int, line_seq:int?,
--:   accepted_ms:int, project:str, key:str, user:str, model:str
--: reply: bytes
-- Close a request with what it cost, once; and once more, when its lines are in the books. The record stays a
-- while, so that a second sending finds its end; until its lines are booked as long as what counts it as unbooked.
-- KEYS: rq, posted (the tenant's sums), windows (of money that is counted)
-- Project, key, user and model are given as they stand in keys.
-- Replies "settled", "dup", or "unknown" where the record is gone: it was settled longer than keep_ms ago, or
--        Redis lost it. "recount": so, and what is posted of some money is older than the line
local WINDOWS_MAX = 1000 -- one of each scope, period and kind that has begun and not ended
local now, seq, cost, accepted = clock(args.now_ms), args.line_seq, args.cost_nano, args.accepted_ms
local ids = { tenant = '', project = args.project, key = args.key, user = args.user, model = args.model }

-- Every count of money that the request is in: of its own ids, in the windows of its acceptance.
local function counts()
  local found = {}
  for _, member in ipairs(call('ZRANGEBYSCORE', KEYS[3], '(' .. int(accepted), '+inf', 'LIMIT', 0, WINDOWS_MAX)) do
    local kind, scope, period, start = string.match(member, '^(.-)|(.-)|(.-)|(.-)$')
    if
      (kind == 'money' or kind == 'money~')
      and number_of(start) <= accepted
      and (scope == 'tenant' or ids[scope] ~= '')
    then
      found[#found + 1] = P .. table.concat({ kind, scope, ids[scope], period, start }, ':')
    end
  end
  return found
end

local function book(amount)
  for _, key in ipairs(counts()) do
    local seed = whole_of(call('HGET', key, 'seed'))
    if seed and seq > seed then
      call('HINCRBY', key, 'posted', int(amount))
    end
  end
end

if seq then
  local newest = number_of(call('HGET', KEYS[2], 'line_seq'))
  if seq > newest then
    call('HSET', KEYS[2], 'line_seq', seq)
  end
end

local record = call('HMGET', KEYS[1], 'state', 'limits', 'input', 'granted', 'hold', 'cost', 'booked')
local state = record[1]
if not state then
  if seq then
    for _, key in ipairs(counts()) do
      local seed = whole_of(call('HGET', key, 'seed'))
      if seed and seq > seed then
        return 'recount'
      end
    end
  end
  return 'unknown'
end

-- It is decided that it will not be in the books: what was counted of it is not.
local function forget()
  call('HINCRBY', KEYS[2], 'input', int(-args.input_tokens))
  call('HINCRBY', KEYS[2], 'output', int(-args.output_tokens))
  call('HINCRBY', KEYS[2], 'requests', -1)
end

if state == 'ended' then
  if seq and not record[7] then
    local before = number_of(record[6])
    call('HSET', KEYS[1], 'booked', 1, 'cost', cost)
    call('HINCRBY', KEYS[2], 'cost_nano', int(cost - before))
    local _, _, money = limits_of(record[2])
    for _, limit in ipairs(money) do
      move(limit, 0, 0, -before)
    end
    book(cost)
    if seq == 0 then
      forget()
    end
    call('PEXPIRE', KEYS[1], args.keep_ms)
  end
  return 'dup'
end

local used = { 1, args.input_tokens, args.output_tokens }
local unbooked = seq and 0 or cost
if state == 'open' then
  local held = { 1, number_of(record[3]), number_of(record[4]) }
  close(now, args.id, record[2], held, used, number_of(record[5]), -1, unbooked)
else -- released: it held nothing any more, and ran all the same
  close(now, args.id, record[2], { 0, 0, 0 }, used, 0, 0, unbooked)
end
if seq then
  book(cost)
  call('HSET', KEYS[1], 'booked', 1)
end
call('HSET', KEYS[1], 'state', 'ended', 'cost', cost, 'hold', 0)
call('PEXPIRE', KEYS[1], seq and args.keep_ms or int(KEEP_MS))
if seq == 0 then
  return 'settled'
end
if call('HEXISTS', KEYS[2], 'requests') == 0 then
  call('HSET', KEYS[2], 'began', int(now))
end
call('HINCRBY', KEYS[2], 'cost_nano', int(cost))
call('HINCRBY', KEYS[2], 'input', int(args.input_tokens))
call('HINCRBY', KEYS[2], 'output', int(args.output_tokens))
call('HINCRBY', KEYS[2], 'requests', 1)
return 'settled'
