#!lua flags=allow-oom
-- append(now, keep s, items as msgpack, then tokens and end event of each): every request of one flush, each fenced by
-- its claim token and offsets.
local answers = {}
for position, item in ipairs(cmsgpack.unpack(ARGV[3])) do
  answers[position] = commit(item, ARGV[2 + 2 * position], ARGV[3 + 2 * position], ARGV[2])
end
publish()
return answers
