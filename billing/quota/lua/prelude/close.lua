-- The end of an open request: its place and its holds go. Buckets take the difference between what was held of
-- them and what was used: {requests, input, output}. `unbooked`: what it cost, where the books do not know yet.
local function close(now, id, limits, held, used, hold, open, unbooked)
  call('ZREM', P .. 'conc', id)
  call('ZREM', P .. 'live', id)
  local rates, concurrency, money = limits_of(limits)
  adjust(rates, now, used[1] - held[1], used[2] - held[2], used[3] - held[3])
  for _, limit in ipairs(concurrency) do
    call('ZREM', P .. limit[1], id)
  end
  for _, limit in ipairs(money) do
    move(limit, -hold, open, unbooked)
  end
end
