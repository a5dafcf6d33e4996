#!lua flags=allow-oom
-- rewrite(now, keep s, prompt weight, output weight, position, item as msgpack, tokens, end event): retract. The log is
-- copied to a new key with the same offsets and without the text from `position` on; that key takes the log's place,
-- then the item is committed.
local position, item = tonumber(ARGV[5]), cmsgpack.unpack(ARGV[6])
local t, id = item[1], item[2]

local function first_code_points(text, count)
  local kept = 0
  for at in string.gmatch(text, '()[%z\1-\127\194-\244][\128-\191]*') do
    if kept == count then
      return string.sub(text, 1, at - 1)
    end
    kept = kept + 1
  end
  return text
end

local function without_vetoed(fields)
  local named = {}
  for at = 1, #fields, 2 do
    named[fields[at]] = fields[at + 1]
  end
  if named.x then
    named.x = first_code_points(named.x, math.max(0, position - number_of(named.p)))
  end
  local kind = named.k or 't'
  return { kind, named.x or '', number_of(named.p), number_of(named.r), number_of(named.i), named.v or '' }
end

local function cut_log()
  local log = key('log', t, id)
  local draft, from = log .. ':cut', '-'
  call('DEL', draft)
  while true do
    local page = call('XRANGE', log, from, '+', 'COUNT', 500)
    if #page == 0 then
      break
    end
    for _, entry in ipairs(page) do
      write(draft, tonumber(string.match(entry[1], '^%d+')), without_vetoed(entry[2]))
      from = '(' .. entry[1]
    end
  end
  call('RENAME', draft, log)
end

local answer = commit(item, ARGV[7], ARGV[8], ARGV[2], { tonumber(ARGV[3]), tonumber(ARGV[4]) }, cut_log)
publish()
return answer
