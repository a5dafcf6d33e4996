-- What the registered workers of each of these fingerprints can hold: the largest of them, and all together.
local WORKERS_MAX = 2000

local function measure(fingerprints)
  local largest, all = {}, {}
  for _, name in ipairs(call('ZRANGE', P .. 'workers', 0, WORKERS_MAX - 1)) do
    local theirs, size = unpack(call('HMGET', P .. 'worker:' .. name, 'fingerprint', 'size'))
    if theirs and fingerprints[theirs] then
      largest[theirs] = math.max(largest[theirs] or 0, number_of(size))
      all[theirs] = (all[theirs] or 0) + number_of(size)
    end
  end
  for fingerprint in pairs(fingerprints) do
    if (largest[fingerprint] or 0) > 0 then
      -- stylua: ignore
      call('HSET', KEYS[1], 'size:' .. fingerprint, int(largest[fingerprint]), 'pool:' .. fingerprint,
        int(all[fingerprint]))
    else
      call('HDEL', KEYS[1], 'size:' .. fingerprint, 'pool:' .. fingerprint)
    end
  end
end
