#!lua flags=allow-oom
--: args: now_ms:int, log_keep_seconds:int, prompt_weight:float, output_weight:float, position:int, item:AppendItem,
--:   tokens:bytes, event:bytes
--: reply: code:str, n:int, o:int, control:int, granted:int, end_at:str, end_memory:str
--: AppendItem: tenant:str, id:str, ck:str, n0:int, o0:int, raw:int, visible:int, input_cached:int?,
--:   entries:[(str,str,int,int,int,str)]
-- Retract: the log is copied to a new key with the same offsets and without the text from `position` on; that key takes
-- the log's place, then the item is committed.
local PAGE = 500
local t, id = args.item.tenant, args.item.id

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
    named.x = first_code_points(named.x, math.max(0, args.position - number_of(named.p)))
  end
  local kind = named.k or 't'
  return { kind, named.x or '', number_of(named.p), number_of(named.r), number_of(named.i), named.v or '' }
end

local function cut_log()
  local log = key('log', t, id)
  local draft, from = log .. ':cut', '-'
  call('DEL', draft)
  while true do
    local page = call('XRANGE', log, from, '+', 'COUNT', PAGE)
    if #page == 0 then
      break
    end
    for _, entry in ipairs(page) do
      -- False: a second entry of one offset, which no script has written.
      is_written(draft, number_of(string.match(entry[1], '^%d+')), without_vetoed(entry[2]))
      from = '(' .. entry[1]
    end
    if #page < PAGE then
      break
    end
  end
  call('RENAME', draft, log)
end

local answer = commit(args.item, args.tokens, args.event, cut_log)
publish()
return cmsgpack.pack(answer)
