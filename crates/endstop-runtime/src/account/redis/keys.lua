
-- Keys of clients. What is in the text of a key is no concern of these functions.
--
-- KEYS[1] .. ':keys'  names of keys -> the key as JSON, with the hash of what a client sends
--
-- `keys` in KEYS[1] .. ':meta' is their version, which each change makes later. It is a time, so that a server that has lost its
-- last moments does not reach the same version with other keys.

-- The version, the time, and all keys, unless the caller has this version.
local function keys(store)
  local version = tonumber(redis.call('HGET', store.base .. ':meta', 'keys') or 0)
  local reply = { 'OK', version, store.now }
  if version ~= store.request.after then
    for _, word in ipairs(redis.call('HGETALL', store.base .. ':keys')) do
      reply[#reply + 1] = word
    end
  end
  return reply
end

-- Changes keys if each is as the caller has read it. A key is a name, its text before, empty if there was none, and its text after.
local function change_keys(store, args)
  local key, meta = store.base .. ':keys', store.base .. ':meta'
  local is_as_read, is_done = true, true
  for at = 2, #args, 3 do
    local was = redis.call('HGET', key, args[at]) or ''
    is_as_read = is_as_read and was == args[at + 1]
    is_done = is_done and was == args[at + 2]
  end
  -- The request came before, and its answer was lost.
  if is_done then
    return { 'OK' }
  end
  if not is_as_read then
    return { 'MOVED' }
  end
  for at = 2, #args, 3 do
    redis.call('HSET', key, args[at], args[at + 2])
  end
  local version = tonumber(redis.call('HGET', meta, 'keys') or 0)
  redis.call('HSET', meta, 'keys', text(math.max(version + 1, store.now)))
  return { 'OK' }
end

register('keys', keys, 'no-writes')
-- A key is not left valid for want of memory.
register('change_keys', change_keys, 'allow-oom')
