-- What one claim call reads of the line, bounded: tenants of a class by counter, in pages, and the first few requests
-- of each. A verdict that a request cannot be taken holds for the whole call, because room only shrinks in it.
local PAGE, TENANTS_MAX, IDS_MAX = 16, 64, 4
local WAITING = { 'status', 'fingerprint', 'prompt', 'n', 'granted', 'deadline', 'control', 'deaths', 'order', 'cn' }

-- `judge(candidate)` says why a candidate cannot be taken ('cap', 'room' or 'other'), nil where it can; `fits` whether
-- there is still room for it.
local function open_line(class, start, judge, fits)
  local from, depth = unpack(start or { 0, 0 })
  return { class = class, from = from, depth = depth, judge = judge, fits = fits, tenants = {}, known = {}, read = 0,
    taken = 0, last = 0, more = true, deeper = false }
end

local function candidate_of(line, t, id)
  local values = call('HMGET', key('req', t, id), unpack(WAITING))
  if values[1] ~= 'queued' then
    leave_line(t, id, line.class)
    return nil
  end
  local prompt, n = tonumber(values[3]), tonumber(values[4])
  return { t = t, id = id, class = line.class, fingerprint = values[2], prompt = prompt, n = n,
    need = prompt + math.max(n, tonumber(values[5])), deadline = tonumber(values[6]), control = tonumber(values[7]),
    deaths = tonumber(values[8]), order = tonumber(values[9]), cn = tonumber(values[10]) }
end

-- The tenant's first request that can be taken now. A tenant whose next requests all exceed its cap is blocked.
local function look_at(line, tenant)
  local t, capped = tenant.t, 0
  local ids = call('ZRANGE', P .. 'ids:' .. line.class .. ':' .. t, line.depth, line.depth + IDS_MAX)
  local most = math.min(#ids, IDS_MAX)
  tenant.head, tenant.seen = nil, true
  for at = 1, most do
    local why = tenant.refused[ids[at]]
    if not why then
      local found = candidate_of(line, t, ids[at])
      why = found and line.judge(found) or not found and 'other'
      if found and not why then
        tenant.head = found
        return
      end
      tenant.refused[ids[at]] = why
    end
    capped = capped + (why == 'cap' and 1 or 0)
  end
  if line.depth == 0 and most > 0 and capped == most then
    block(t, line.class)
  else
    line.deeper = line.deeper or #ids > IDS_MAX
  end
end

-- Ranks shift while picks are charged, so a page begins that much earlier and known tenants are passed over.
local function read_page(line)
  local at = line.from + math.max(0, line.read - line.taken)
  local page = call('ZRANGE', P .. 'act:' .. line.class, at, at + PAGE - 1, 'WITHSCORES')
  line.more = #page == 2 * PAGE
  line.read = line.read + PAGE
  for position = 1, #page, 2 do
    local t, counter = page[position], tonumber(page[position + 1])
    line.last = math.max(line.last, counter)
    if not line.known[t] then
      local tenant = { t = t, counter = counter, refused = {} }
      line.known[t] = tenant
      line.tenants[#line.tenants + 1] = tenant
    end
  end
end

-- A request of the tenant was taken: its counter rose, and its caps may stop the others.
local function was_served(line, t, counter)
  local tenant = line.known[t]
  if tenant then
    tenant.counter, tenant.head, tenant.seen, tenant.refused = counter, nil, false, {}
    line.taken = line.taken + 1
  end
end

local function least_counter(line)
  local least
  for _, tenant in ipairs(line.tenants) do
    if tenant.head and not line.fits(tenant.head) then
      tenant.refused[tenant.head.id], tenant.seen = 'room', false
    end
    if not tenant.seen then
      look_at(line, tenant)
    end
    if tenant.head and (not least or tenant.counter < least) then
      least = tenant.counter
    end
  end
  return least
end

-- The next to serve: of the tenants within `delta` of the least counter, who came first.
local function first_of(line, delta)
  local least = least_counter(line)
  while line.more and line.read < TENANTS_MAX and (not least or line.last <= least + delta) do
    read_page(line)
    least = least_counter(line)
  end
  if not least or (line.more and least > line.last) then
    return nil
  end
  local best
  for _, tenant in ipairs(line.tenants) do
    if tenant.head and tenant.counter <= least + delta and (not best or tenant.head.order < best.head.order) then
      best = tenant
    end
  end
  return best
end

-- Where the next call begins when this one found nothing: behind the tenants it read, then deeper in their lines.
local function next_start(line)
  if line.more and line.read >= TENANTS_MAX then
    return { line.from + TENANTS_MAX, line.depth }
  elseif line.deeper then
    return { 0, line.depth + IDS_MAX }
  end
  return { 0, 0 }
end
