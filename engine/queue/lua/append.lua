#!lua flags=allow-oom
-- append(now, keep s, prompt weight, output weight, items as msgpack, then tokens and end event of each): every request
-- of one flush, each fenced by its claim token and offsets.
local answers, weights = {}, { tonumber(ARGV[3]), tonumber(ARGV[4]) }
for position, item in ipairs(cmsgpack.unpack(ARGV[5])) do
  answers[position] = commit(item, ARGV[4 + 2 * position], ARGV[5 + 2 * position], ARGV[2], weights)
end
publish()
return answers
