#!lua flags=allow-oom
-- refuse_late_enqueue(now, keep s, t, id...): of these, those that this pool does not know. A late enqueue of one that
-- was accepted until now is refused from here on; one that its sender sends again is not.
local buried = {}
for at = 4, #ARGV do
  local t, id = ARGV[3], ARGV[at]
  if call('EXISTS', key('req', t, id)) == 0 then
    call('SET', key('grave', t, id), int(NOW), 'EX', ARGV[2])
    buried[#buried + 1] = id
  end
end
return buried
