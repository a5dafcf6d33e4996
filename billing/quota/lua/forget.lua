#!lua flags=allow-oom
--: args: line_seq:int
--: reply: int
-- Forget what was counted of the books, as they are others now: the sums are gone, and so is what is posted of each
-- count of money, so that the next admission seeds it. Open requests and what they hold stay.
-- KEYS: posted (the tenant's sums), keys of money
-- Replies how many counts there are. A key of money that is no hash is deleted: nothing could be counted in it.
call('HDEL', KEYS[1], 'cost_nano', 'input', 'output', 'requests', 'began')
call('HSET', KEYS[1], 'line_seq', int(args.line_seq))
for at = 2, #KEYS do
  call('HDEL', KEYS[at], 'seed', 'posted', 'rev')
end
return #KEYS - 1
