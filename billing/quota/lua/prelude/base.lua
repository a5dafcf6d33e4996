-- Every key that is named here begins with the tenant's tag, as the declared ones do: one slot.
local P = string.match(KEYS[1], '^{t:[^}]*}')
