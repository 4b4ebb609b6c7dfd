"""The writes and reads of a Redis store that take several steps, as Lua scripts: each is one atomic step.

`Keys` says what is under which key. A row begins with parts of fixed width, of which the scripts read the first two,
its place, and set the fifth:

    time in the order of bytes 8, id 8, time 8, confidence 8, superseded by 8 (0: nothing), where the text begins 4

and then come source, trace and span with NUL in between, and the text. A mark is the place's time 8, source digest 32,
text digest 32. Everything is refused, or found to be there, before the first write, since Redis does not undo a script
that stops.
"""

from __future__ import annotations

from typing import Final

from memtrace.stores.redis_rows import Keys

LOST: Final = "LOST"
"""How the refusal begins where one of a scope's keys is gone and others are not."""
TAKEN: Final = 0
"""The answer where a record of the scope has the new row's id already."""

_PRELUDE: Final = f"""
local {", ".join(Keys._fields)} = unpack(KEYS)
local function place_of(row) return row:sub(1, 16) end
local function id_of(row) return row:sub(9, 16) end
local function superseder_of(row) return row:sub(33, 40) end
local function with_superseder(row, id) return row:sub(1, 32) .. id .. row:sub(41) end
local function source_of(mark) return mark:sub(9, 40) end
local function text_of(mark) return mark:sub(41, 72) end
local function row_at(place) return redis.call('ZRANGEBYLEX', active, '[' .. place, '+', 'LIMIT', 0, 1)[1] end
local function row_of(mark, id) return row_at(mark:sub(1, 8) .. id) end
local function is_there(id) return redis.call('HEXISTS', marks, id) + redis.call('HEXISTS', superseded, id) > 0 end
local function take_out(row, mark)
  redis.call('ZREM', active, row)
  redis.call('ZREM', sources, source_of(mark) .. place_of(row))
end
local function put_in(row, mark)
  redis.call('ZADD', active, 0, row)
  redis.call('ZADD', sources, 0, source_of(mark) .. place_of(row))
  redis.call('HSET', marks, id_of(row), mark)
end
local function of_source(digest, first, count)
  -- No finite time begins with the two bytes after the digest.
  return redis.call('ZREVRANGEBYLEX', sources, '(' .. digest .. '\\255\\255', '[' .. digest, 'LIMIT', first, count)
end
"""

_WHOLE: Final = f"""{_PRELUDE}
local count, old_ones = redis.call('ZCARD', active), redis.call('EXISTS', superseded)
if redis.call('ZCARD', sources) ~= count or redis.call('HLEN', texts) ~= count or redis.call('HLEN', marks) ~= count
    or old_ones > redis.call('EXISTS', replaced) then
  return redis.error_reply('{LOST} some keys of a scope and not others')
end
"""
"""How a script begins that needs all of a scope's keys. It is refused where the four of active rows tell of different
numbers of them, or rows are superseded and what superseded them is not known: some keys are gone then."""

_PUT: Final = """
local function put(row, mark, by_hand, what)
  local known = redis.call('HGET', texts, text_of(mark))
  if not known then
    redis.call('SET', about, what)
    redis.call('HSET', texts, text_of(mark), id_of(row))
    put_in(row, mark)
    return row
  end
  local old_mark = redis.call('HGET', marks, known)
  local old = row_of(old_mark, known)
  if source_of(mark) ~= by_hand or source_of(old_mark) == by_hand then return old end
  local taken = old:sub(1, 24) .. row:sub(25)
  take_out(old, old_mark)
  put_in(taken, old_mark:sub(1, 8) .. mark:sub(9))
  return taken
end
"""

_NEW_ID: Final = f"""
if is_there(id_of(ARGV[1])) then return {TAKEN} end
"""

_REMOVE: Final = """
local function forget_superseded(id, by)
  local all, others = redis.call('HGET', replaced, by) or '', {}
  for n = 1, #all, 8 do
    local other = all:sub(n, n + 7)
    if other ~= id then others[#others + 1] = other end
  end
  if #others == 0 then redis.call('HDEL', replaced, by) else redis.call('HSET', replaced, by, table.concat(others)) end
end
local function remove(ids)
  local gone, going, n = {}, {}, 1
  for _, id in ipairs(ids) do going[id] = true end
  while n <= #ids do
    local id = ids[n]
    local mark = redis.call('HGET', marks, id)
    if mark then
      local row = row_of(mark, id)
      gone[#gone + 1] = row
      take_out(row, mark)
      redis.call('HDEL', texts, text_of(mark))
      redis.call('HDEL', marks, id)
    else
      local row = redis.call('HGET', superseded, id)
      if row then  -- unless it was evicted
        gone[#gone + 1] = row
        redis.call('HDEL', superseded, id)
        if not going[superseder_of(row)] then forget_superseded(id, superseder_of(row)) end
      end
    end
    local older = redis.call('HGET', replaced, id) or ''
    for at = 1, #older, 8 do
      ids[#ids + 1] = older:sub(at, at + 7)
      going[ids[#ids]] = true
    end
    redis.call('HDEL', replaced, id)
    n = n + 1
  end
  if redis.call('EXISTS', active, superseded) == 0 then redis.call('DEL', about) end
  return gone
end
"""

GET: Final = f"""{_WHOLE}
local mark = redis.call('HGET', marks, ARGV[1])
if mark then return row_of(mark, ARGV[1]) end
return redis.call('HGET', superseded, ARGV[1])
"""
"""The row, given an id; nothing where there is none."""

NEWEST_OF_SOURCE: Final = f"""{_WHOLE}
local found = {{}}
for n, member in ipairs(of_source(ARGV[1], 0, ARGV[2])) do found[n] = row_at(member:sub(33)) end
return found
"""
"""Active rows; given the source's digest and how many, -1 for all."""

ADD: Final = f"""{_WHOLE}{_PUT}{_NEW_ID}
return put(ARGV[1], ARGV[2], ARGV[3], ARGV[4])
"""
"""The row as stored, or `TAKEN`; given a new row, its mark, the source digest of what is added by hand, and what the
scope is."""

SUPERSEDE: Final = f"""{_WHOLE}{_PUT}{_NEW_ID}
local old_mark = redis.call('HGET', marks, ARGV[5])
if not old_mark then return false end
local old = row_of(old_mark, ARGV[5])
if text_of(old_mark) == text_of(ARGV[2]) then return old end
local kept = put(ARGV[1], ARGV[2], ARGV[3], ARGV[4])
redis.call('HSET', replaced, id_of(kept), (redis.call('HGET', replaced, id_of(kept)) or '') .. ARGV[5])
take_out(old, old_mark)
redis.call('HDEL', texts, text_of(old_mark))
redis.call('HDEL', marks, ARGV[5])
redis.call('HSET', superseded, ARGV[5], with_superseder(old, id_of(kept)))
return kept
"""
"""As `ADD`, and the id of what is superseded; nothing where that is no active row."""

COUNT_ON: Final = """
if tonumber(redis.call('GET', KEYS[1]) or 0) < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[1]) end
return 0
"""
"""Always 0: the count of ids is now no less than the number given."""

DELETE: Final = f"""{_WHOLE}{_REMOVE}
if not is_there(ARGV[1]) then return 0 end
return #remove({{ARGV[1]}})
"""
"""How many rows went; given an id."""

DELETE_ALL: Final = f"""{_PRELUDE}
local count = redis.call('ZCARD', active) + redis.call('HLEN', superseded)
redis.call('UNLINK', unpack(KEYS))
return count
"""
"""How many rows went. (The memory is freed later, so that many rows do not keep other users waiting.)"""

PRUNE: Final = f"""{_WHOLE}{_REMOVE}
local ids = {{}}
for n, member in ipairs(of_source(ARGV[1], ARGV[2], -1)) do ids[n] = member:sub(41, 48) end
return remove(ids)
"""
"""The rows that went; given the source's digest and how many of it stay."""
