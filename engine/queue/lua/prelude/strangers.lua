-- Whom the pool lets in. `P:admits` is there where that is not everybody: a field `t:TENANT` for each, and by `since`
-- when somebody was let in no more. What came before goes on.
local ADMITS = P .. 'admits'
local let_in, all_are = {}, nil

local function is_stranger(t)
  if all_are == nil then
    all_are = call('EXISTS', ADMITS) == 0
  end
  if not all_are and let_in[t] == nil then
    let_in[t] = call('HEXISTS', ADMITS, 't:' .. t) == 1
  end
  return not all_are and not let_in[t]
end

local function is_kept_out(t, order)
  return is_stranger(t) and order > number_of(call('HGET', ADMITS, 'since'))
end
