#!lua flags=allow-oom
--: args: now_ms:int, keep_seconds:int, tenant:str, ids:[str]
--: reply: ids:[str]
-- Of these ids, those that this pool does not know. A late enqueue of one that was accepted until now is refused from
-- here on; one that its sender sends again is not.
local refused = {}
for _, id in ipairs(args.ids) do
  local t = args.tenant
  if call('EXISTS', key('req', t, id)) == 0 then
    call('SET', key('grave', t, id), int(NOW), 'EX', args.keep_seconds)
    refused[#refused + 1] = id
  end
end
return cmsgpack.pack({ ids = refused })
