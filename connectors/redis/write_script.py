"""The script that writes a batch and its entry in the ledger at once: what makes the sink exactly once.

A split's events come in the order of their offsets, on each attempt, though cut into other batches. The ledger has an entry for
each split, whose value is the position of the last event that was written. The script compares it with what the writer
believes, writes the events, and stores the new position; Redis runs nothing else meanwhile, and appends all of it to its file
as one transaction. So a batch whose answer was lost, or a split that is written again after a crash, finds the position
advanced, and the writer continues after it.

A command that fails ends a script, and what it wrote before stays: so the types of all keys are checked first. A server without
memory refuses a script before its first write.
"""

from __future__ import annotations

WRITE = """
local position = redis.call('GET', KEYS[1]) or ''
if ARGV[2] ~= '' and position ~= ARGV[1] then return {'moved', position} end
local kind, limit, expiry = ARGV[4], ARGV[5], ARGV[6]
local types = {stream = 'stream', list = 'list', hash = 'hash'}
if types[kind] then
    for at = 2, #KEYS do
        local found = redis.call('TYPE', KEYS[at])['ok']
        if found ~= 'none' and found ~= types[kind] then return {'type', KEYS[at], found} end
    end
end
local at = 7
while at <= #ARGV do
    local key, count = KEYS[tonumber(ARGV[at])], tonumber(ARGV[at + 1])
    local first, last = at + 2, at + 1 + count
    if kind == 'stream' then
        if limit ~= '' then
            redis.call('XADD', key, 'MAXLEN', '~', limit, '*', unpack(ARGV, first, last))
        else
            redis.call('XADD', key, '*', unpack(ARGV, first, last))
        end
    elseif kind == 'list' then
        redis.call('RPUSH', key, ARGV[first])
    elseif kind == 'hash' then
        redis.call('HSET', key, unpack(ARGV, first, last))
    elseif kind == 'string' then
        if expiry ~= '' then redis.call('SET', key, ARGV[first], 'PX', expiry) else redis.call('SET', key, ARGV[first]) end
    else
        redis.call('PUBLISH', key, ARGV[first])
    end
    at = last + 1
end
if kind == 'hash' and expiry ~= '' then
    for at = 2, #KEYS do redis.call('PEXPIRE', KEYS[at], expiry) end
end
if ARGV[2] ~= '' then redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return {'ok'}
"""
"""Keys: that of the ledger, then those of events. Arguments: the position before and after (empty: without a ledger),
milliseconds for which the ledger's entry is kept, what is written, the limit of streams, milliseconds after which values expire;
then for each event the number of its key, the number of its arguments, and these."""
