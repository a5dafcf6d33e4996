-- What one claim call reads of the line, bounded: tenants of a class by counter, in pages, and the first few requests
-- of each. A verdict that a request cannot be taken holds for the whole call, because room only shrinks in it.
local PAGE, TENANTS_MAX, IDS_MAX, IDS_READ_MAX, HEADS_WANTED = 16, 64, 4, 64, 16
local WAITING = {
  'status',
  'fingerprint',
  'prompt',
  'n',
  'granted',
  'deadline',
  'control',
  'deaths',
  'order',
  'cn',
  'lane',
  'warm',
  'warm_until',
  'crowd',
  'phases',
}

-- `judge(candidate, left under its tenant's cap)` says why a candidate cannot be taken ('cap', 'room' or 'other'), nil
-- where it can; `fits` whether there is still room for it.
local function open_line(class, start, judge, fits)
  start = type(start) == 'table' and start or {}
  local from, depth = math.floor(fraction_of(start[1], 0)), math.floor(fraction_of(start[2], 0))
  return {
    class = class,
    from = from,
    depth = depth,
    judge = judge,
    fits = fits,
    tenants = {},
    known = {},
    read = 0,
    taken = 0,
    ids_read = 0,
    last = 0,
    more = true,
    deeper = false,
  }
end

local function candidate_of(line, t, id)
  local values = call('HMGET', key('req', t, id), unpack(WAITING))
  local good = values[1] == 'queued' and not string.find(t .. id, '[^\32-\126]') -- nor is any other name ours
  for at = 3, 10 do -- from the prompt's tokens to `cn`: a request without is nobody's to run
    good = good and whole_of(values[at]) ~= nil
  end
  if not good then
    leave_line(t, id, line.class)
    return nil
  end
  local prompt, n = number_of(values[3]), number_of(values[4])
  return {
    t = t,
    id = id,
    class = line.class,
    fingerprint = values[2],
    prompt = prompt,
    n = n,
    need = prompt + math.max(n, number_of(values[5])),
    deadline = number_of(values[6]),
    control = number_of(values[7]),
    deaths = number_of(values[8]),
    order = number_of(values[9]),
    cn = number_of(values[10]),
    large = values[11] == 'large',
    warm = values[12] or '',
    warm_until = number_of(values[13]),
    crowd = number_of(values[14]),
    phases = values[15],
  }
end

-- The first request of one of the tenant's lanes that can be taken now; how many were read, how many exceed its cap,
-- and whether there are more.
local function first_in(line, tenant, lane, left)
  local ids = call('ZRANGE', P .. lane .. line.class .. ':' .. tenant.t, line.depth, line.depth + IDS_MAX)
  local most, capped = math.min(#ids, IDS_MAX), 0
  for at = 1, most do
    local why = tenant.refused[ids[at]]
    if not why then
      local found = candidate_of(line, tenant.t, ids[at])
      line.ids_read = line.ids_read + 1
      why = found and line.judge(found, left) or not found and 'other'
      if not why then
        return found
      end
      tenant.refused[ids[at]] = why
      if why ~= 'other' then
        note_wait(tenant.t, ids[at], found.phases, why)
      end
    end
    capped = capped + (why == 'cap' and 1 or 0)
  end
  return nil, most, capped, #ids > IDS_MAX
end

-- The first of both lanes. A tenant whose next requests all exceed its cap is blocked.
local function look_at(line, tenant)
  local left = left_under_cap(tenant.t)
  local small, read, capped, deeper = first_in(line, tenant, 'ids:', left)
  local large, read_large, capped_large, deeper_large = first_in(line, tenant, 'big:', left)
  tenant.seen, tenant.head = true, small or large
  if small and large and large.order < small.order then
    tenant.head = large
  elseif
    not tenant.head
    and line.depth == 0
    and read + read_large > 0
    and capped + capped_large == read + read_large
  then
    block(tenant.t, line.class)
  elseif not tenant.head then
    line.deeper = line.deeper or deeper or deeper_large
  end
end

-- Ranks shift while picks are charged, so a page begins that much earlier and known tenants are passed over.
local function read_page(line)
  local at = line.from + math.max(0, line.read - line.taken)
  local page = call('ZRANGE', P .. 'act:' .. line.class, at, at + PAGE - 1, 'WITHSCORES')
  line.more = #page == 2 * PAGE
  line.read = line.read + PAGE
  for position = 1, #page, 2 do
    local t, counter = page[position], fraction_of(page[position + 1], 0)
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

-- The least counter of those that can be served now, and how many those are.
local function least_counter(line)
  local least, heads = nil, 0
  for _, tenant in ipairs(line.tenants) do
    if tenant.head and not line.fits(tenant.head) then
      tenant.refused[tenant.head.id], tenant.seen = 'room', false
    end
    if not tenant.seen then
      look_at(line, tenant)
    end
    if tenant.head then
      heads = heads + 1
      least = math.min(tenant.counter, least or tenant.counter)
    end
  end
  return least, heads
end

local function may_read_on(line)
  return line.more and line.read < TENANTS_MAX and line.ids_read < IDS_READ_MAX
end

-- The next to serve: of the tenants read that are within `delta` of the least counter, who came first.
local function first_of(line, delta)
  local least, heads = least_counter(line)
  while
    may_read_on(line) and (not least or line.last < least or (heads < HEADS_WANTED and line.last <= least + delta))
  do
    read_page(line)
    least, heads = least_counter(line)
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
  if line.more then
    return { line.from + line.read, line.depth }
  elseif line.deeper then
    return { 0, line.depth + IDS_MAX }
  end
  return { 0, 0 }
end
