-- One owner's commit to one request: an AppendItem, its tokens and its end event, '' where there is none.
local FIELDS = {
  'status',
  'ck',
  'n',
  'o',
  'control',
  'granted',
  'first',
  'deaths',
  'cn',
  'cached',
  'prompt',
  'lane',
  'worker',
  'inc',
  'fresh',
  'end_at',
  'end_ck',
}

-- A commit that was made before, exactly so: the reply to it was lost.
local function was_made(item, tokens, n, o)
  local t, id, n0, o0, entries = item.tenant, item.id, item.n0, item.o0, item.entries
  if n0 + #tokens / 4 > n or o0 + #entries > o then
    return false
  end
  if #tokens > 0 and call('GETRANGE', key('tok', t, id), n0 * 4, n0 * 4 + #tokens - 1) ~= tokens then
    return false
  end
  local stored = call('XRANGE', key('log', t, id), int(o0 + 1), int(o0 + #entries), 'COUNT', #entries + 1)
  for position, entry in ipairs(entries) do
    local fields = { x = '', k = 't', v = '' }
    local pairs_ = stored[position] and stored[position][2] or {}
    for at = 1, #pairs_, 2 do
      fields[pairs_[at]] = pairs_[at + 1]
    end
    if fields.x ~= entry[2] or fields.k ~= entry[1] or fields.v ~= entry[6] then
      return false
    end
  end
  return true
end

local function verdict(item, tokens, record)
  local n, o = number_of(record[3]), number_of(record[4])
  if not record[1] then
    return 'MISSING'
  elseif record[1] == 'ended' then
    return 'ENDED'
  elseif record[2] ~= item.ck or item.ck == '' then
    return 'FENCED'
  elseif item.n0 == n and item.o0 == o then
    return 'OK'
  elseif was_made(item, tokens, n, o) then
    return 'DUP'
  end
  return 'GAP'
end

-- Output is charged as it is logged, so a repeated or fenced append costs nothing.
local function bill(t, output, cached)
  if cached > 0 then
    refund(t, args.prompt_weight * cached)
  end
  if output > 0 then
    charge(t, args.output_weight * output)
  end
end

local function store(item, tokens, record)
  local t, id, n0, o0, entries = item.tenant, item.id, item.n0, item.o0, item.entries
  local req, log = key('req', t, id), key('log', t, id)
  local n, o = n0 + #tokens / 4, o0 + #entries
  local set = { 'HSET', req, 'n', int(n), 'o', int(o), 'raw', int(item.raw), 'visible', int(item.visible) }
  local function put(name, value)
    set[#set + 1] = name
    set[#set + 1] = value
  end
  if #tokens > 0 then
    call('APPEND', key('tok', t, id), tokens)
    if record[7] == '0' then
      put('first', int(NOW))
    end
    if record[8] ~= '0' then
      put('deaths', '0')
    end
    if record[15] == '1' then
      clear_suspect(t, id, record[13])
      local phases, accepted = unpack(call('HMGET', req, 'phases', 'accepted'))
      put('phases', with_phase(phases, accepted, 'decode'))
    end
    if record[12] == 'large' then
      call('SREM', P .. 'bigs:' .. record[13], member_of(t, id))
    end
  end
  for position, entry in ipairs(entries) do
    put_entry(log, o0 + position, entry)
    if entry[1] == 't' and entry[2] ~= '' then
      put('covered', int(entry[5]))
    end
  end
  local cached = 0
  if item.input_cached and record[9] == '1' and record[10] == '0' then
    cached = math.min(item.input_cached, number_of(record[11]))
    put('cached', int(item.input_cached))
  end
  call(unpack(set))
  bill(t, #tokens / 4, cached)
  if #entries > 0 then
    tell(t, id, o, entries)
  end
  return n, o
end

-- The owner has what the log has: a restart of the server lost nothing of this request.
local function confirm(item, record)
  local now = incarnation()
  if (record[14] or '0') ~= now then
    call('HSET', key('req', item.tenant, item.id), 'inc', now)
  end
end

-- `at`: where the event of this owner's end is in the stream, nil where there is none.
local function answer_of(code, n, o, record, at)
  local control, granted = number_of(record[5]), number_of(record[6])
  local memory = at and memory_of_ends()
  return { code = code, n = n, o = o, control = control, granted = granted, end_at = at, end_memory = memory }
end

-- `before` runs between the fence and the commit (retract rewrites the log there).
local function commit(item, tokens, event, before)
  local record = call('HMGET', key('req', item.tenant, item.id), unpack(FIELDS))
  local code = verdict(item, tokens, record)
  if code == 'OK' or code == 'DUP' then
    confirm(item, record)
  end
  if code ~= 'OK' then
    local is_own = code == 'ENDED' and record[17] == item.ck and item.ck ~= '' and is_entry_id(record[16])
    return answer_of(code, number_of(record[3]), number_of(record[4]), record, is_own and record[16] or nil)
  end
  if before then
    before()
  end
  local at = event ~= '' and add_end(event) or nil
  local n, o = store(item, tokens, record)
  if at then
    finish(item.tenant, item.id, at, args.log_keep_seconds)
    code = 'ENDED'
  end
  return answer_of(code, n, o, record, at)
end
