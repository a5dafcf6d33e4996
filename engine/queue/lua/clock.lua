#!lua flags=no-writes
-- clock(now): the time in ms that scripts see.
return NOW
