#!lua flags=no-writes
--: args: now_ms:int
--: reply: int
-- The time in ms that scripts see.
return NOW
