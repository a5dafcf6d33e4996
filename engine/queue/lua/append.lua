#!lua flags=allow-oom
--: args: now_ms:int, log_keep_seconds:int, prompt_weight:float, output_weight:float, items:[AppendItem],
--:   parts:[bytes]
--: reply: answers:[CommitReply]
--: CommitReply: code:str, n:int, o:int, control:int, granted:int, end_at:str, end_memory:str
--: AppendItem: tenant:str, id:str, ck:str, n0:int, o0:int, raw:int, visible:int, input_cached:int?,
--:   entries:[(str,str,int,int,int,str)]
-- Every request of one flush, each fenced by its claim token and offsets.
local answers = {}
for position, item in ipairs(args.items) do
  answers[position] = commit(item, args.parts[2 * position - 1], args.parts[2 * position])
end
publish()
return cmsgpack.pack({ answers = answers })
