#!lua flags=allow-oom
--: args: now_ms:int, tenants:[str]
--: reply: bool
-- Whom the pool lets in from now on: these tenants; where none is named, all. Replies whether that is new.
local function fields_of(hash)
  local fields, count = {}, 0
  for at = 1, #hash, 2 do
    if hash[at] ~= 'since' then
      fields[hash[at]] = true
      count = count + 1
    end
  end
  return fields, count
end

local before, count = fields_of(call('HGETALL', ADMITS))
if #args.tenants == 0 then
  call('DEL', ADMITS)
  if count > 0 then
    wake_workers()
  end
  return count > 0 and 1 or 0
end
local grows, wanted = false, {}
for _, t in ipairs(args.tenants) do
  wanted['t:' .. t] = true
  grows = grows or not before['t:' .. t]
end
local shrinks = count == 0
for field in pairs(before) do
  if not wanted[field] then
    shrinks = true
    call('HDEL', ADMITS, field)
  end
end
if not grows and not shrinks then
  return 0
end
for field in pairs(wanted) do
  call('HSET', ADMITS, field, 1)
end
if shrinks then
  call('HSET', ADMITS, 'since', int(math.max(NOW_US, number_of(call('HGET', KEYS[1], 'order')))))
end
if grows then
  wake_workers()
end
return 1
