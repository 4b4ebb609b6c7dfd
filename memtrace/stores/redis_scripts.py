"""The writes and reads of a Redis store that take several steps, as Lua scripts: each is one atomic step.

All keys of a scope share one hash tag, so that a Redis Cluster can take them. In this order they are:

1. *rows*: a hash, id to row;
2. *order*: a sorted set of the active rows' places, all with score 0, so that it is in the order of the places;
3. *sources*: likewise, of source digest and place, for the newest of one source;
4. *texts*: a hash, digest of an active row's text to its id;
5. *replaced*: a hash, id to the ids of those it superseded, blanks in between;
6. *about*: what the scope is, for maintenance.

A row begins with four parts of fixed width, which the scripts read, and NUL after each; no text holds one:

    place (time 16, id 16) NUL source digest 64 NUL text digest 64 NUL superseded by 16 NUL the rest

Everything is refused, or found to be there, before the first write, since Redis does not undo a script that stops.
"""

from __future__ import annotations

from typing import Final

NOBODY: Final = "0" * 16
"""Where a row says what superseded it: nothing did."""

_PARTS: Final = """
local rows, order, sources, texts, replaced, about = unpack(KEYS)
local NOBODY = '0000000000000000'
local function id_of(place) return place:sub(17, 32) end
local function place_of(row) return row:sub(1, 32) end
local function source_of(row) return row:sub(34, 97) end
local function text_of(row) return row:sub(99, 162) end
local function superseder_of(row) return row:sub(164, 179) end
local function with_superseder(row, id) return row:sub(1, 163) .. id .. row:sub(180) end
local function rows_at(places, from)
  local found = {}
  for first = 1, #places, 1000 do
    local ids = {}
    for n = first, math.min(first + 999, #places) do ids[#ids + 1] = places[n]:sub(from + 17, from + 32) end
    for _, row in ipairs(redis.call('HMGET', rows, unpack(ids))) do found[#found + 1] = row end
  end
  return found
end
"""

_PUT: Final = """
local function put(new, by_hand, what)
  local known = redis.call('HGET', texts, text_of(new))
  if not known then
    redis.call('SET', about, what)
    redis.call('HSET', texts, text_of(new), id_of(new))
    redis.call('ZADD', order, 0, place_of(new))
    redis.call('ZADD', sources, 0, source_of(new) .. place_of(new))
    redis.call('HSET', rows, id_of(new), new)
    return new
  end
  local old = redis.call('HGET', rows, known)
  if source_of(new) ~= by_hand or source_of(old) == by_hand then return old end
  local taken = place_of(old) .. new:sub(33)
  redis.call('ZREM', sources, source_of(old) .. place_of(old))
  redis.call('ZADD', sources, 0, source_of(taken) .. place_of(taken))
  redis.call('HSET', rows, known, taken)
  return taken
end
"""

_REMOVE: Final = """
local function remove(ids)
  local gone, going, n = {}, {}, 1
  for _, id in ipairs(ids) do going[id] = true end
  while n <= #ids do
    local id = ids[n]
    local row = redis.call('HGET', rows, id)
    local by = superseder_of(row)
    gone[n] = row
    if by == NOBODY then
      redis.call('ZREM', order, place_of(row))
      redis.call('ZREM', sources, source_of(row) .. place_of(row))
      redis.call('HDEL', texts, text_of(row))
    elseif not going[by] then
      local others = {}
      for other in (redis.call('HGET', replaced, by) or ''):gmatch('%S+') do
        if other ~= id then others[#others + 1] = other end
      end
      if #others > 0 then redis.call('HSET', replaced, by, table.concat(others, ' '))
      else redis.call('HDEL', replaced, by) end
    end
    for older in (redis.call('HGET', replaced, id) or ''):gmatch('%S+') do
      ids[#ids + 1], going[older] = older, true
    end
    redis.call('HDEL', replaced, id)
    redis.call('HDEL', rows, id)
    n = n + 1
  end
  if redis.call('EXISTS', rows) == 0 then redis.call('DEL', about) end
  return gone
end
"""

NEWEST: Final = f"""{_PARTS}
return rows_at(redis.call('ZREVRANGE', order, 0, ARGV[1]), 0)
"""
"""Rows; given the index of the last, -1 for all."""

NEWEST_OF_SOURCE: Final = f"""{_PARTS}
local last, first = '[' .. ARGV[1] .. 'g', '[' .. ARGV[1]
return rows_at(redis.call('ZREVRANGEBYLEX', sources, last, first, 'LIMIT', 0, ARGV[2]), 64)
"""
"""Likewise, given the source's digest and how many, -1 for all. (Places are hexadecimal; ``g`` comes after them.)"""

ADD: Final = f"""{_PARTS}{_PUT}
return put(ARGV[1], ARGV[2], ARGV[3])
"""
"""The row as stored; given a new row, the digest of the source of what is added by hand, and what the scope is."""

SUPERSEDE: Final = f"""{_PARTS}{_PUT}
local old = redis.call('HGET', rows, ARGV[4])
if not old or superseder_of(old) ~= NOBODY then return false end
if text_of(old) == text_of(ARGV[1]) then return old end
local kept = put(ARGV[1], ARGV[2], ARGV[3])
local earlier = redis.call('HGET', replaced, id_of(kept))
redis.call('HSET', replaced, id_of(kept), (earlier and earlier .. ' ' or '') .. ARGV[4])
redis.call('ZREM', order, place_of(old))
redis.call('ZREM', sources, source_of(old) .. place_of(old))
redis.call('HDEL', texts, text_of(old))
redis.call('HSET', rows, ARGV[4], with_superseder(old, id_of(kept)))
return kept
"""
"""As `ADD`, and the id of what is superseded; nothing where that is no active row."""

DELETE: Final = f"""{_PARTS}{_REMOVE}
if redis.call('HEXISTS', rows, ARGV[1]) == 0 then return 0 end
return #remove({{ARGV[1]}})
"""
"""How many rows went; given an id."""

DELETE_ALL: Final = """
local count = redis.call('HLEN', KEYS[1])
redis.call('DEL', unpack(KEYS))
return count
"""
"""How many rows went."""

PRUNE: Final = f"""{_PARTS}{_REMOVE}
local last, first, ids = '[' .. ARGV[1] .. 'g', '[' .. ARGV[1], {{}}
for _, member in ipairs(redis.call('ZREVRANGEBYLEX', sources, last, first, 'LIMIT', ARGV[2], -1)) do
  ids[#ids + 1] = member:sub(81, 96)
end
return remove(ids)
"""
"""The rows that went; given the source's digest and how many of it stay."""
